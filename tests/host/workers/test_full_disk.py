"""A checkpoint that has no room ends the stream; with room it goes on, and no row is lost."""

from __future__ import annotations

import resource
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock import Checkpoint
from penstock.errors import FileError
from tests.host.workers.kit.groups import batches, comparable, numbered, opened, wanted

FULL = r"cannot write .*/part-0000000002.*: No space left on device; free or add space and open"


def without_first(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows without the value of min_by, which is the oracle's own where several are least."""
    return sorted((row[:-1] for row in rows), key=repr)


def goes_on(folder: Path, fill: Callable[[Any], None], empty: Callable[[], None], why: str) -> None:
    """Push until the second checkpoint does not fit, make room, and push the rest."""
    given = batches(21, 12)
    checkpoint = Checkpoint(folder, every_s=600)
    stream = opened(2, checkpoint=checkpoint)
    for batch in given[:4]:
        stream.push("a", batch)
    stream.flush()
    first = stream.poll()
    fill(stream)
    for batch in given[4:8]:
        stream.push("a", batch)
    with pytest.raises(FileError, match=why):
        stream.flush()
    with pytest.raises(FileError, match=why):
        stream.push("a", given[8])
    with pytest.raises(FileError, match=why):
        stream.close()
    empty()
    found = {}
    with opened(1, checkpoint=checkpoint) as stream:
        assert stream.position("a") == 4 * 40
        for batch in given[4:]:
            stream.push("a", batch)
        last = stream.close()
        for number, rows in [last, *numbered(stream)]:
            found[number] = rows
    # What was polled and not acknowledged came again.
    assert comparable(found[first.number]) == comparable(first.rows)
    table = pa.concat_tables(found.values())
    assert without_first(comparable(table)) == without_first(wanted(given))


def test_workers_that_may_not_write_so_much(tmp_path: Path) -> None:
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]

    def fill(stream: Any) -> None:
        for pid in stream.processes:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (64, most))

    why = r"cannot write .*/part-0000000002.*: File too large; raise the limit .*\(ulimit -f\)"
    goes_on(tmp_path, fill, lambda: None, why)


@pytest.mark.slow
def test_a_full_disk(tmp_path: Path) -> None:
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small disk")
    filler = tmp_path / "filler"

    def fill(stream: Any) -> None:
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"x" * 4096)
        assert shutil.disk_usage(tmp_path).free == 0

    try:
        goes_on(tmp_path / "c", fill, filler.unlink, FULL)
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)
