"""Settings, the choice of a device, and turns on it."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.errors import DeviceError, FileError, UsageError
from penstock.spark_bridge import devices
from penstock.spark_bridge.conf import PREFIX, Conf
from penstock.spark_bridge.devices import DeviceChoice, DeviceSpec, slot
from penstock.spark_bridge.discovery import discovery_script
from penstock.spark_bridge.resources import check_resources


def session(**settings):
    """As much of a session as resources need."""
    found = {name.replace("__", "."): text for name, text in settings.items()}
    return SimpleNamespace(conf=SimpleNamespace(get=found.get))


@contextmanager
def settings(spark, **given):
    """A session with more settings."""
    names = {name.replace("__", "."): text for name, text in given.items()}
    for name, text in names.items():
        spark.conf.set(name, text)
    try:
        yield spark
    finally:
        for name in names:
            spark.conf.unset(name)


def test_settings_are_read(spark):
    device = "remote?address=a -> b,\n(c)"
    given = {"spark__penstock__device": device, "spark__penstock__batch__lanes": "7"}
    with settings(spark, **given, spark__other=" -> "):
        read = Conf.read(spark)
    assert (read.device, read.lanes, read.partitioning) == (device, 7, "auto")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("batch__lane", "3", "there is no setting spark.penstock.batch.lane; did you mean"),
        ("colour", "3", "docs/spark/tables.md lists them"),
        ("batch__lanes", "-1", "is '-1', and must be a whole number, 0 or more"),
        ("batch__lanes", "many", "must be a whole number"),
        ("device__fallback", "gpu", "must be one of none, cpu"),
    ],
)
def test_wrong_settings(spark, name, text, message):
    given = {f"spark__penstock__{name}": text}
    with settings(spark, **given), pytest.raises(UsageError, match=message):
        Conf.read(spark)


def table():
    """The settings as a table in Markdown, each with what the docstring of `Conf` says of it."""
    doc = inspect.getdoc(Conf) or ""
    entries = re.findall(r"^(\w+) : .*\n((?:    .*\n?)+)", doc, re.MULTILINE)
    meanings = {name: " ".join(text.split()) for name, text in entries}
    lines = ["| key | default | meaning |", "|---|---|---|"]
    for f in fields(Conf):
        default = f"`{str(f.default).lower()}`" if f.default not in ("", None) else ""
        lines.append(f"| `{PREFIX}{f.metadata['key']}` | {default} | {meanings[f.name]} |")
    return "\n".join(lines)


def test_the_docs_list_the_settings():
    text = (Path(__file__).parents[2] / "docs" / "spark" / "tables.md").read_text(encoding="utf-8")
    assert table() in text


def test_devices_by_text():
    spec = DeviceSpec.parse("remote?address=unix:///run/a.sock&device=cpu&connect_s=3", "x")
    assert spec.options == {"address": "unix:///run/a.sock", "device": "cpu", "connect_s": 3}
    assert DeviceSpec.parse(str(spec), "x") == spec
    with pytest.raises(DeviceError, match="x: there is no device named 'abacus'"):
        DeviceSpec.parse("abacus?beads=9", "x")


def test_who_chooses_the_device(monkeypatch):
    monkeypatch.delenv(devices.VARIABLE, raising=False)
    plain, named = Conf(), Conf(device="remote?address=unix:///a")
    task = {"fpga": ["amaranth"], "gpu": ["0"]}

    def chosen(argument, conf, addresses):
        return DeviceChoice.read(argument, None, conf).resolve(addresses).name

    assert chosen(None, plain, {}) == "cpu"
    monkeypatch.setenv(devices.VARIABLE, "rtl")
    assert chosen(None, plain, {"gpu": ["0"]}) == "rtl"
    assert chosen(None, named, {}) == "remote"
    assert chosen(None, named, task) == "amaranth"
    assert chosen("cpu", named, task) == "cpu"
    spec = DeviceChoice.read("remote?address=a", {"address": "b"}, plain).resolve()
    assert spec.options == {"address": "b"}
    choice = DeviceChoice.read(None, None, plain)
    assert [choice.slots(DeviceSpec(n)) for n in ("cpu", "remote", "rtl")] == [0, 0, 1]


def test_a_task_that_cannot_open_its_device(monkeypatch, capsys):
    monkeypatch.setattr(devices, "_open", {})
    choice = DeviceChoice.read("cpu", {"threads": 0}, Conf(fallback="cpu"))
    with pytest.raises(UsageError, match="at least one thread"), choice.open():
        pass
    missing = {"address": "unix:///nowhere/penstock.sock", "connect_s": 0.1}
    with (
        pytest.raises(DeviceError, match="nowhere"),
        DeviceChoice.read("remote", missing, Conf()).open(),
    ):
        pass
    with DeviceChoice.read("remote", missing, Conf(fallback="cpu")).open() as device:
        assert device.name == "cpu"
    assert "device cpu instead of remote" in capsys.readouterr().err


HOLDER = """
import sys
from penstock.spark_bridge.devices import slot
with slot(sys.argv[1], 1, 5):
    print("held", flush=True)
    sys.stdin.read()
"""


def _taken(device: str, slots: int) -> bool:
    with slot(device, slots, 10):
        return True


def test_turns_on_a_device(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    command = [sys.executable, "-c", HOLDER, "board"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        with slot("other", 1, 0.1), slot("board", 2, 0.1):
            pass
        with (
            pytest.raises(DeviceError, match=r"board was busy for 0.2 s: 1 other tasks"),
            slot("board", 1, 0.2),
        ):
            pass
        # Whichever of several slots becomes free is taken, not one that was chosen before.
        with ThreadPoolExecutor(1) as threads:
            with slot("board", 2, 10):
                waiting = threads.submit(_taken, "board", 2)
                assert not waiting.done()
            assert waiting.result(10)
        process.kill()
        process.wait(10)
        # A lock ends with its process.
        with slot("board", 1, 10):
            pass


def test_locks_of_another_user_or_behind_a_link_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    folder = tmp_path / f"penstock-slots-{os.geteuid()}"
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileError, match=f"{folder} is no folder but a link"), slot("b", 1, 10):
        pass
    folder.unlink()
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(FileError, match=f"others may write in the folder {folder}"):
        _taken("b", 1)
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"spark__master": "local[4]"}, "master local.4. has no executors with resources"),
        ({"spark__master": "spark://a:7077"}, "an executor has 0, so none would start"),
        (
            {
                "spark__master": "local-cluster[2,1,1024]",
                "spark__executor__resource__fpga__amount": "1",
            },
            None,
        ),
    ],
)
def test_resources_that_spark_would_wait_for(settings, message):
    settings["spark__task__resource__fpga__amount"] = "1"
    if message is None:
        check_resources(session(**settings), Conf())
        return
    with pytest.raises(UsageError, match=message):
        check_resources(session(**settings), Conf())
    check_resources(session(**settings), Conf(resource="gpu"))


def test_what_spark_asks_a_host_for_its_devices():
    devices_of_host = "cpu, remote?address=unix:///run/a.sock"

    def asked(text, *arguments):
        return subprocess.run(
            [discovery_script(), *arguments],
            env={"PENSTOCK_SPARK_DEVICES": text, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    done = asked(devices_of_host, "gate")
    assert json.loads(done.stdout) == {
        "name": "gate",
        "addresses": ["cpu", "remote?address=unix:///run/a.sock"],
    }
    done = asked("abacus")
    assert done.returncode == 5
    assert "there is no device named 'abacus'" in done.stderr


def test_tables_of_a_local_session_lie_in_a_folder_of_its_own(tmp_path):
    """Other users' sessions cannot find it, or put tables there; it goes with the process."""
    code = (
        "import os\n"
        "from penstock.sim.local_spark.local_session import _warehouse\n"
        "print(_warehouse(), oct(os.stat(_warehouse()).st_mode & 0o777))\n"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "TMPDIR": str(tmp_path)},
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout.split()
        for _ in range(2)
    ]
    assert [mode for _, mode in said] == ["0o700", "0o700"]
    assert said[0] != said[1]
    assert not list(tmp_path.glob("penstock-warehouse*"))
