"""The start of a connection: both sides state their protocol, and prove that they know the token.

The client sends a nonce, the server a nonce and its proof, the client its proof and the
connection's purpose. The token never travels, and a proof is useless on another connection.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from enum import Enum
from importlib.metadata import version

from penstock.errors import DeviceError, VersionError

from ..device.fields import Header, MalformedError, field
from .frames import Frames
from .message import PROTOCOL

#: Bytes of a nonce; as text it has twice as many digits.
_NONCE_BYTES = 32


class Role(Enum):
    """Side that makes a proof: part of it, so that nobody can send the other side's proof back."""

    SERVER = "server"
    CLIENT = "client"


def new_nonce() -> str:
    """A random text that is used once."""
    return secrets.token_hex(_NONCE_BYTES)


def proof(token: str, role: Role, protocol: int, client_nonce: str, server_nonce: str) -> str:
    """Compute a text from nonces that nobody can compute without the token."""
    statement = "\n".join(("penstock", role.value, str(protocol), client_nonce, server_nonce))
    return hmac.new(token.encode(), _bytes(statement), hashlib.sha256).hexdigest()


def proves(shown: object, wanted: str) -> bool:
    """Whether a proof is right; compares in constant time."""
    return isinstance(shown, str) and hmac.compare_digest(_bytes(shown), _bytes(wanted))


def _bytes(text: str) -> bytes:
    # JSON can have halves of characters, which are no UTF-8.
    return text.encode("utf-8", "surrogatepass")


class TokenError(DeviceError):
    """The other side does not know the token."""


def greet(frames: Frames, token: str | None, wants: Header) -> Header:
    """Begin a connection to a server; returns its answer to ``wants``.

    Parameters
    ----------
    wants : Header
        The connection's purpose.

    Raises
    ------
    GoneError
    TokenError
        The server wants a token, or does not know the client's.
    VersionError
        The other side speaks another protocol.
    """
    nonce = new_nonce()
    frames.send({"protocol": PROTOCOL, "version": version("penstock"), "nonce": nonce})
    answer, _ = frames.receive()
    if "error" in answer:
        return answer
    if answer.get("protocol") != PROTOCOL:
        spoken = answer.get("protocol"), answer.get("version")
        raise VersionError(other_version(*spoken, "client", "server"))
    proven: Header = {}
    if field(answer, "token", bool):
        if token is None:
            raise TokenError("it wants a token, and none was given")
        nonces = nonce, _nonce(answer)
        if not proves(answer.get("proof"), proof(token, Role.SERVER, PROTOCOL, *nonces)):
            raise TokenError("it does not know the token given")
        proven = {"proof": proof(token, Role.CLIENT, PROTOCOL, *nonces)}
    elif token is not None:
        raise TokenError("it has no token, so it is another server than the one meant")
    frames.send({**wants, **proven})
    return frames.receive()[0]


def welcome(frames: Frames, token: str | None) -> Header:
    """Begin a connection from a client; returns its purpose.

    Raises
    ------
    GoneError
    TokenError
        The client does not know the token.
    MalformedError
    VersionError
        The other side speaks another protocol.
    """
    hello, _ = frames.receive()
    if hello.get("protocol") != PROTOCOL:
        raise VersionError(other_version(hello.get("protocol"), hello.get("version")))
    nonces = _nonce(hello), new_nonce()
    answer: Header = {"protocol": PROTOCOL, "version": version("penstock"), "nonce": nonces[1]}
    if token is not None:
        answer["proof"] = proof(token, Role.SERVER, PROTOCOL, *nonces)
    frames.send({**answer, "token": token is not None})
    wants, _ = frames.receive()
    if token is not None:
        wanted = proof(token, Role.CLIENT, PROTOCOL, *nonces)
        if not proves(wants.get("proof"), wanted):
            raise TokenError("the token is missing or wrong")
    return wants


def _nonce(header: Header) -> str:
    nonce = field(header, "nonce", str)
    if len(nonce) != 2 * _NONCE_BYTES:
        raise MalformedError(f"a nonce has {2 * _NONCE_BYTES} characters, not {len(nonce)}")
    return nonce


def other_version(
    spoken: object, installed: object = "", side: str = "server", other: str = "client"
) -> str:
    """The message for a side of another version."""
    theirs = f" (penstock {installed!r:.40})" if installed else ""
    return (
        f"the {side} speaks protocol {PROTOCOL} (penstock {version('penstock')}), and this "
        f"{other} {spoken!r:.20}{theirs}; install the same version of penstock on both sides"
    )
