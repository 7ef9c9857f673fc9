"""Addresses, tokens, and sockets that were left behind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.errors import FileError, UsageError
from penstock.host.devices.remote.client.device import RemoteDevice
from penstock.host.wire import address
from penstock.host.wire.address import (
    Address,
    check_listen,
    check_listener,
    clear_stale,
    read_token,
)
from tests.host.kit.serving import socket_address


@pytest.fixture
def path() -> Iterator[Path]:
    with socket_address() as address:
        yield Path(address.removeprefix("unix://"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("unix:///run/p.sock", "unix:///run/p.sock"),
        ("tcp://:43", "tcp://127.0.0.1:43"),
        ("tcp://box:43", "tcp://box:43"),
        ("tcp://[::1]:43", "tcp://[::1]:43"),
    ],
)
def test_addresses(text: str, shown: str) -> None:
    address = Address.parsed(text)
    assert str(address) == shown
    assert Address.parsed(shown) == address


@pytest.mark.parametrize(
    "text",
    ["", "unix://", "unix://relative", "tcp://box", "tcp://box:99999", "http://x:1", "/run/p.sock"],
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError):
        Address.parsed(text)


def test_a_path_that_is_too_long_for_a_socket() -> None:
    with pytest.raises(UsageError, match="107 bytes"):
        Address.parsed("unix:///" + "x" * 107)


@pytest.mark.parametrize("text", ["tcp://0.0.0.0:1", "tcp://box:1", "tcp://[::]:1"])
def test_the_network_needs_a_token(text: str) -> None:
    with pytest.raises(UsageError, match="everybody on the network"):
        check_listen(Address.parsed(text), None)
    check_listen(Address.parsed(text), "a token")


def test_so_do_other_users_of_the_machine() -> None:
    for text in ("tcp://:1", "tcp://localhost:1", "tcp://[::1]:1"):
        with pytest.raises(UsageError, match="every user of this machine"):
            check_listen(Address.parsed(text), None)
    check_listen(Address.parsed("unix:///run/p.sock"), None)


def test_a_socket_that_nobody_listens_on_is_removed(path: Path) -> None:
    clear_stale(path)
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(path))
        old.listen()
        with pytest.raises(UsageError, match=r"listens on .* already"):
            clear_stale(path)
    assert path.exists()
    clear_stale(path)
    assert not path.exists()


def test_what_is_no_socket_stays(path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(UsageError, match="is no socket"):
        clear_stale(path)
    assert path.read_text() == "precious"
    with pytest.raises(FileError, match="no folder"):
        clear_stale(path / "below" / "it")


#: Listens on a socket as another user until its standard input ends.
LISTENER = """
import os, socket, sys

os.setuid(12345)
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(sys.argv[1])
    os.chmod(sys.argv[1], 0o666)
    listener.listen()
    print("listening", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a program as another user")
@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="the system does not tell who")
def test_a_socket_on_which_another_user_listens_is_refused(path: Path) -> None:
    """Also where the file is this user's, who gave it to nobody."""
    path.parent.chmod(0o777)
    command = [sys.executable, "-S", "-c", LISTENER, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "listening\n"
        for _ in range(2):
            with pytest.raises(UsageError, match=f"user 12345 listens on {path}"):
                RemoteDevice(f"unix://{path}")
            os.chown(path, 0, 0)
        process.stdin.close()


def test_a_socket_of_this_user_is_accepted(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(str(path))
        listener.listen()
        client.connect(str(path))
        check_listener(client, path)


def test_tokens(tmp_path: Path) -> None:
    file = tmp_path / "token"
    with pytest.raises(FileError, match="cannot read the token"):
        read_token(file)
    file.write_text("short\n")
    file.chmod(0o600)
    with pytest.raises(UsageError, match="at least 16"):
        read_token(file)
    file.write_text("0123456789abcdef\n")
    assert read_token(file) == "0123456789abcdef"
    file.chmod(0o644)
    with pytest.raises(UsageError, match="chmod 600"):
        read_token(file)


def test_a_token_from_a_pipe(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(address, "_TOKEN_S", 0.05)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    with pytest.raises(FileError, match=r"nobody has written a token to the pipe .*/pipe within"):
        read_token(pipe)
    keeps = os.open(pipe, os.O_RDWR)
    os.write(keeps, b"0123456789")
    with pytest.raises(FileError, match="nobody has written a token"):  # its writer is slow
        read_token(pipe)
    monkeypatch.setattr(address, "_TOKEN_S", 60)
    os.close(keeps)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(pipe.write_text, "0123456789abcdef\n")  # begins once the pipe is read
        assert read_token(pipe) == "0123456789abcdef"
