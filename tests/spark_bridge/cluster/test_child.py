"""Processes that are waited for, that end, and that are ended from elsewhere."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from queue import SimpleQueue

import pytest

from penstock.errors import DeviceError, FileError, MissingToolError, ProcessError, UsageError
from penstock.sim.local_spark import cluster_record
from penstock.sim.local_spark.child import Child
from penstock.sim.local_spark.cluster import ClusterConfig
from penstock.sim.local_spark.standalone import Settings

TIMEOUT_S = 60

#: Says that it is up, and does nothing until it is ended.
IDLE = "import signal; print('up at 7', flush=True); signal.pause()"


def child(tmp_path: Path, code: str, **options) -> Child:
    return Child("the test", [sys.executable, "-c", code], tmp_path / "log", **options)


def test_a_line_is_waited_for(tmp_path):
    one = child(tmp_path, IDLE)
    assert one.wait_for(r"up at (\d)", TIMEOUT_S)[1] == "7"
    with pytest.raises(ProcessError, match=r"did not come up within 0\.01 s; see .*log: up at 7"):
        one.wait_for("never", 0.01)
    one.stop()
    assert one.process.returncode == -signal.SIGTERM
    assert (tmp_path / "log").read_text() == "up at 7\n"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("print('so sad'); exit(3)", r"the test ended with status 3; see .*log: so sad$"),
        ("print('so sad'); print('\\tat java.X'); exit(3)", r"status 3; see .*log: so sad$"),
        ("exit(3)", r"the test ended with status 3; .*log is empty"),
        ("import os; os.kill(os.getpid(), 9)", "the test was killed by SIGKILL"),
    ],
)
def test_an_early_end_is_an_error(tmp_path, code, message):
    ended: SimpleQueue[Child] = SimpleQueue()
    one = child(tmp_path, code, ended=ended.put)
    with pytest.raises(ProcessError, match=message):
        one.wait_for("up", TIMEOUT_S)
    assert ended.get(timeout=TIMEOUT_S) is one
    one.stop()


def test_what_does_not_end_is_killed_with_what_it_started(tmp_path):
    code = (
        "import signal, subprocess, sys\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"one = subprocess.Popen([sys.executable, '-c', {IDLE!r}])\n"
        "print('started', one.pid, flush=True)\n"
        "signal.pause()"
    )
    one = child(tmp_path, code)
    started = int(one.wait_for(r"started (\d+)", TIMEOUT_S)[1])
    one.wait_for("up at", TIMEOUT_S)
    # Readable once the process has ended, whether or not anybody has waited for it.
    with open(os.pidfd_open(started)) as grandchild:
        one.stop(grace_s=0.1)
        assert one.process.returncode == -signal.SIGKILL
        assert select.select([grandchild], [], [], TIMEOUT_S)[0]


def test_what_cannot_be_started(tmp_path):
    with pytest.raises(MissingToolError, match="the test cannot be started: /no/such: No such"):
        Child("the test", ["/no/such"], tmp_path / "log")
    with pytest.raises(FileError, match="cannot write the log"):
        Child("the test", ["true"], tmp_path / "none" / "log")


def test_one_cluster_per_folder(tmp_path):
    with cluster_record.owned(tmp_path), pytest.raises(UsageError, match="a cluster runs in"):
        cluster_record.owned(tmp_path).__enter__()
    with cluster_record.owned(tmp_path):
        pass


def test_what_a_killed_supervisor_left_is_ended(tmp_path):
    left = child(tmp_path, IDLE)
    left.wait_for("up", TIMEOUT_S)
    code = (
        "import sys; from pathlib import Path\n"
        "from penstock.sim.local_spark.cluster_record import write_record\n"
        "write_record(Path(sys.argv[1]), 'spark://x:1', {'left': int(sys.argv[2])})"
    )
    given = [str(tmp_path), str(left.process.pid)]
    subprocess.run([sys.executable, "-c", code, *given], check=True, timeout=TIMEOUT_S)
    assert cluster_record.stop_recorded(tmp_path) == ["left"]
    assert left.process.wait(TIMEOUT_S) == -signal.SIGKILL
    left.stop()
    with pytest.raises(FileError, match="no cluster runs in"):
        cluster_record.stop_recorded(tmp_path)


def test_a_stranger_with_the_number_of_a_process_is_left_alone(tmp_path, monkeypatch):
    own = os.getpid()
    started = cluster_record._started(own)
    monkeypatch.setattr(cluster_record, "_identity", lambda pid: (pid, started - 1))
    cluster_record.write_record(tmp_path, "spark://x:1", {"stranger": own})
    assert cluster_record.stop_recorded(tmp_path) == []


def test_settings_are_their_owners_and_have_a_secret(tmp_path):
    texts = []
    for name in "ab":
        settings = Settings(tmp_path / name)
        settings.write()
        settings.write_client("spark://127.0.0.1:7")
        assert settings.folder.stat().st_mode & 0o077 == 0
        texts.append((settings.client / "spark-defaults.conf").read_text())
        plain = settings.write_worker(1, []).read_text()
        assert "resource" not in plain
        assert (
            "spark.worker.resource.fpga.amount 2\n"
            in settings.write_worker(2, ["cpu", "rtl"]).read_text()
        )
    assert "spark.master spark://127.0.0.1:7\n" in texts[0]
    secrets = {line for text in texts for line in text.splitlines() if "authenticate.s" in line}
    assert len(secrets) == 2


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"workers": 0}, "workers must be at least 1, not 0"),
        ({"workers": 251}, "workers must be at most 250, not 251"),
        ({"memory_mib": 100}, "memory_mib must be at least 512"),
        ({"devices": ["cpu", "abacus"]}, "devices: there is no device named 'abacus'"),
        ({"board": "zcu104"}, "needs the Python of an environment with PYNQ"),
    ],
)
def test_what_is_no_cluster(values, message):
    with pytest.raises((UsageError, DeviceError), match=message):
        ClusterConfig(**values)
