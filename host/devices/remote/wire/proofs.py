"""Proofs that a peer knows the token, which never travels."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from enum import Enum


class Role(Enum):
    """Who proves; a proof of one is none of the other, so that none can be sent back."""

    SERVER = "server"
    CLIENT = "client"


def new_nonce() -> str:
    """A number that is used once."""
    return secrets.token_hex(32)


def proof(token: str, role: Role, protocol: int, client_nonce: str, server_nonce: str) -> str:
    """What only who knows the token can say after these nonces."""
    said = "\n".join(("penstock", role.value, str(protocol), client_nonce, server_nonce))
    return hmac.new(token.encode(), _bytes(said), hashlib.sha256).hexdigest()


def proves(shown: object, wanted: str) -> bool:
    """Whether what was shown is the proof wanted, in a time that does not tell how much of it."""
    return isinstance(shown, str) and hmac.compare_digest(_bytes(shown), _bytes(wanted))


def _bytes(text: str) -> bytes:
    # JSON can have halves of characters, which are no UTF-8.
    return text.encode("utf-8", "surrogatepass")
