"""How a connection begins: both sides say their protocol, and prove that they know the token.

The client says a nonce, the server its own and its proof, the client its proof and what the
connection is for. The token never travels, and a proof is of no use on another connection.
"""

from __future__ import annotations

from importlib.metadata import version

from penstock.errors import DeviceError

from ....device.fields import Header, MalformedError, field
from .frames import Frames
from .message import PROTOCOL
from .proofs import Role, new_nonce, proof, proves

#: Characters of a nonce.
_NONCE = len(new_nonce())


class TokenError(DeviceError):
    """The other side does not know the token."""


def greet(frames: Frames, token: str | None, wants: Header) -> Header:
    """Begin a connection to a server; its answer to what this client wants.

    Parameters
    ----------
    wants : Header
        What the connection is for.

    Raises
    ------
    GoneError
    TokenError
        The server wants a token, or does not know the client's.
    DeviceError
        It speaks another protocol.
    """
    nonce = new_nonce()
    frames.send({"protocol": PROTOCOL, "version": version("penstock"), "nonce": nonce})
    answer, _ = frames.receive()
    if "error" in answer:
        return answer
    if answer.get("protocol") != PROTOCOL:
        said = answer.get("protocol"), answer.get("version")
        raise DeviceError(other_version(*said, "client", "server"))
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
    """Begin a connection from a client; what it is for.

    Raises
    ------
    GoneError
    TokenError
        The client does not know the token.
    MalformedError
    DeviceError
        It speaks another protocol.
    """
    hello, _ = frames.receive()
    if hello.get("protocol") != PROTOCOL:
        raise DeviceError(other_version(hello.get("protocol"), hello.get("version")))
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
    if len(nonce) != _NONCE:
        raise MalformedError(f"a nonce has {_NONCE} characters, not {len(nonce)}")
    return nonce


def other_version(
    spoken: object, installed: object = "", here: str = "server", there: str = "client"
) -> str:
    """What to say to a side of another version."""
    theirs = f" (penstock {installed!r:.40})" if installed else ""
    return (
        f"the {here} speaks protocol {PROTOCOL} (penstock {version('penstock')}), and this "
        f"{there} {spoken!r:.20}{theirs}; install the same version of penstock on both sides"
    )
