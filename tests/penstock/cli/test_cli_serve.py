"""``penstock serve``, and the commands that take a device from it."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.cli.stopping import stops
from penstock.host.devices.remote.client.device import RemoteDevice
from tests.host.kit.serving import serving_cpu, socket_address
from tests.kit.foreign import ForeignFiles

TIMEOUT_S = 60
#: One peer may have half of the 64 that a server takes.
SESSIONS = 32
QUERY = "SELECT a.n AS a, b.n AS b FROM a JOIN b ON a.x < b.x"


def tables(folder: Path) -> list[str]:
    arguments = []
    for name in "ab":
        file = folder / f"{name}.parquet"
        pq.write_table(pa.table({"n": range(50), "x": [k * 7 % 50 for k in range(50)]}), file)
        arguments += ["--table", f"{name}={file}"]
    return [*arguments, "--time", "a=n", "--time", "b=n", "--rows", "9", "--show", "1000"]


def test_serve_from_start_to_stop(program: Callable, cli: Callable, tmp_path: Path) -> None:
    with socket_address() as address:
        path = Path(address.removeprefix("unix://"))
        # What a server that was killed left behind.
        with socket.socket(socket.AF_UNIX) as old:
            old.bind(str(path))
        foreign = ForeignFiles()
        foreign.put(path.parent, "s.bak", ".s", "s~", "s.1")
        page = ["--page", "0"] if find_spec("bokeh") else []
        options = ["--threads", "1", "--metrics-port", "0", *page]
        server = program("serve", "--listen", address, *options)
        metrics = re.search(r"http://\S+", server.stdout.readline())
        if page:
            shown = re.search(r"page: (http://\S+)", server.stdout.readline())
            with urllib.request.urlopen(shown[1], timeout=TIMEOUT_S) as answer:
                assert "<title>Penstock</title>" in answer.read().decode()
        assert server.stdout.readline() == f"serving cpu at {address}\n"
        out, err, status = cli("devices", "--address", address)
        assert status == 0, err
        assert re.search(r"^cpu +1 +16, 32, 64 ", out, re.MULTILINE)
        here, err, status = cli("sql", QUERY, *tables(tmp_path))
        assert status == 0, err
        for device in ((), ("--device", "remote")):
            there, err, status = cli("sql", QUERY, *tables(tmp_path), "--address", address, *device)
            assert status == 0, err
            assert sorted(there.splitlines()) == sorted(here.splitlines())
            assert " s on remote (" in err
        assert metrics is not None
        with urllib.request.urlopen(metrics[0], timeout=TIMEOUT_S) as answer:
            text = answer.read().decode()
        assert 'penstock_server_clients{device="cpu"} 0.0' in text
        assert 'penstock_server_sessions_ended_total{reason="left"} 3.0' in text
        assert re.search(r"penstock_server_evaluations_total\S+ [1-9]", text)
        server.send_signal(signal.SIGTERM)
        out, err = server.communicate(timeout=TIMEOUT_S)
        assert (out, err, server.returncode) == ("stopped\n", "", 0)
        assert not path.exists()
        foreign.require_untouched()


#: A program that waits for its end, which the system tells another of its threads.
WAITING = """
import signal, threading
from penstock.cli.stopping import stops

with stops() as wait:
    # Runs when the main thread sleeps: it gets no other chance.
    threading.Timer(0.2, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM)).start()
    wait()
print("stopped")
"""


def test_a_signal_that_another_thread_gets_is_not_lost() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WAITING], capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert (done.stdout, done.stderr) == ("stopped\n", "")


def test_a_signal_before_anybody_waits_is_not_lost() -> None:
    with stops() as wait:
        signal.raise_signal(signal.SIGTERM)
        wait()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize("attempt", range(3))
def test_sigterm_right_after_many_sessions_were_opened(program: Callable, attempt: int) -> None:
    with socket_address() as address, ExitStack() as cleanup:
        server = program("serve", "--listen", address, "--threads", "1")
        assert server.stdout.readline() == f"serving cpu at {address}\n"
        for _ in range(SESSIONS):
            cleanup.enter_context(RemoteDevice(address, resume_s=0.1))
        server.send_signal(signal.SIGTERM)
        out, err = server.communicate(timeout=TIMEOUT_S)
        assert (out, err, server.returncode) == ("stopped\n", "", 0)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--listen", "nowhere"), 2, "is no address of a server"),
        (("--listen", "tcp://0.0.0.0:0"), 2, "give --token-file"),
        (("--listen", "tcp://127.0.0.1:0"), 2, "give --token-file"),
        (("--listen", "unix:///no/such/folder/s"), 6, "there is no folder"),
        (("--listen", "unix:///tmp/s", "--token-file", "/no/such"), 6, "cannot read the token"),
        (("--listen", "unix:///tmp/s", "--device", "remote"), 2, "not a server's"),
        (("--listen", "unix:///tmp/s", "--device", "gpu"), 5, "no device named 'gpu'"),
        (("--listen", "unix:///tmp/s", "--memory-mib", "0"), 2, "memory_bytes must be above 0"),
    ],
)
def test_what_cannot_be_served(cli: Callable, arguments: tuple, status: int, message: str) -> None:
    _, err, given = cli("serve", *arguments)
    assert given == status
    assert message in err


def test_what_cannot_be_reached(cli: Callable, tmp_path: Path) -> None:
    with socket_address() as address:
        _, err, status = cli("sql", QUERY, *tables(tmp_path), "--address", address)
        assert status == 5
        assert f"start one with: penstock serve --listen {address}" in err
    _, err, status = cli("devices", "--token-file", "x")
    assert status == 2
    assert "--address" in err
    with serving_cpu() as address:
        _, err, status = cli(
            "sql", QUERY, *tables(tmp_path), "--device", "rtl", "--address", address
        )
        assert status == 5
        assert "the server has no device 'rtl'; it has cpu" in err
