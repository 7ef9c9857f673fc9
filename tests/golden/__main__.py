"""``python -m tests.golden REVISION``: make the archive with the code of a revision (minutes)."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from bench.trees import HERE, checked_out
from tests.golden.kept import ARCHIVE

#: MPI may be a package of the environment, or the system's.
_PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


def main() -> int:
    """Make all parts in processes that import the revision's packages."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("revision", help="of git")
    revision = parser.parse_args().revision
    with checked_out(revision) as then, tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join([str(then), str(HERE)])
        state, left = Path(folder) / "state", Path(folder) / "left"
        state.mkdir()
        for part in ("begin", "ranks", "spark", "answers"):
            start = [sys.executable, "-m", "tests.golden.making", part, str(state), str(left)]
            if part == "ranks":
                start = [str(shutil.which("mpiexec", path=_PATH)), "-n", "2", *start]
            subprocess.run(start, check=True, cwd=then, env={**os.environ, "PYTHONPATH": path})
        with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
            for entry in sorted(state.iterdir()):
                archive.add(entry, entry.name)
    sys.stdout.write(f"{ARCHIVE}: {ARCHIVE.stat().st_size:,} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
