"""Both sides prove that they know the token, and what one of them says is of no use to others."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.errors import DeviceError
from penstock.host.devices.cpu import CpuDevice
from penstock.host.devices.remote.client.device import RemoteDevice
from penstock.host.wire.frames import MAGIC, PREFIX
from penstock.host.wire.handshake import Role, new_nonce, proof, proves
from penstock.host.wire.message import PROTOCOL
from tests.host.kit.frames import exchanged, raw
from tests.host.kit.serving import serving

TOKEN = "0123456789abcdef0123456789abcdef"
TIMEOUT_S = 30


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    return file


def test_a_proof_is_of_one_role_one_protocol_and_these_nonces_in_their_order() -> None:
    one, two = new_nonce(), new_nonce()
    said = [
        proof(TOKEN, Role.SERVER, PROTOCOL, one, two),
        proof(TOKEN, Role.CLIENT, PROTOCOL, one, two),
        proof(TOKEN, Role.CLIENT, PROTOCOL, two, one),
        proof(TOKEN, Role.CLIENT, PROTOCOL + 1, one, two),
        proof(TOKEN, Role.CLIENT, PROTOCOL, one, new_nonce()),
        proof(TOKEN[::-1], Role.CLIENT, PROTOCOL, one, two),
    ]
    assert len(set(said)) == len(said)
    assert proves(said[0], said[0])
    assert not proves(said[0][:-1], said[0])
    assert not proves(None, said[0])
    assert not proves("é", said[0])


def test_the_server_s_own_proof_sent_back_is_none(token_file: Path) -> None:
    """Nor is one that it gave on another connection, after nonces that the attacker chose."""
    with serving({"cpu": CpuDevice(1)}, token=TOKEN) as server:

        def hello(nonce: str) -> bytes:
            return json.dumps({"protocol": PROTOCOL, "version": "0", "nonce": nonce}).encode()

        with raw(server.address) as (first, _), raw(server.address) as (second, _):
            said = exchanged(first, hello("0" * 64))
            # The other connection is asked to prove with the nonce that the first one wants.
            other = exchanged(second, hello(said["nonce"]))
            for shown, frames in ((said["proof"], first), (other["proof"], second)):
                wants = {"stream": "session", "name": "thief", "proof": shown}
                answer = exchanged(frames, json.dumps(wants).encode())
                assert "the token is missing or wrong" in answer["error"]["message"]
        assert not server.sessions()


@contextmanager
def false_server(answer: Callable[[dict], dict]) -> Iterator[tuple[str, bytearray]]:
    """Listens where a server was, answers every message so, and keeps what clients say."""
    heard = bytearray()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(TIMEOUT_S)
            while prefix := connection.recv(PREFIX.size, socket.MSG_WAITALL):
                text = connection.recv(PREFIX.unpack(prefix)[1], socket.MSG_WAITALL)
                heard.extend(prefix + text)
                said = json.dumps(answer(json.loads(text))).encode()
                connection.sendall(PREFIX.pack(MAGIC, len(said), 0) + said)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"tcp://127.0.0.1:{listener.getsockname()[1]}", heard
        thread.join(TIMEOUT_S)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        # What the client said, sent back; and as much as can be made of it without the token.
        (lambda said: said, "needs token as bool"),
        (lambda said: {**said, "token": True}, "does not know the token"),
        (lambda said: {**said, "token": True, "proof": "0" * 64}, "does not know the token"),
        (lambda said: {**said, "token": False}, "it has no token"),
        (lambda said: {**said, "token": True, "protocol": 2}, "protocol 7 .* this server 2 "),
    ],
)
def test_who_listens_after_the_server_died_learns_nothing(
    token_file: Path, answer: Callable[[dict], dict], message: str
) -> None:
    with (
        false_server(answer) as (address, heard),
        pytest.raises(DeviceError, match=message),
    ):
        RemoteDevice(address, token_file=token_file)
    assert TOKEN.encode() not in heard
    assert b"proof" not in heard


def test_the_token_never_travels(token_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = bytearray()
    sendmsg = socket.socket.sendmsg

    def recorded(self: socket.socket, buffers: list, *rest: object) -> int:
        for buffer in buffers:
            sent.extend(bytes(buffer))
        return sendmsg(self, buffers, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "sendmsg", recorded)
    with (
        serving({"cpu": CpuDevice(1)}, token=TOKEN) as server,
        RemoteDevice(str(server.address), token_file=token_file) as device,
    ):
        assert device.lanes == 1
    assert b'"proof"' in sent
    assert TOKEN.encode() not in sent
