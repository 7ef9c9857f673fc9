"""``python -m tests.hw.golden [NAME ...]``: write down the hashes of exports, by default of all."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from tests.hw.golden.exports import EXPORTS, GOLDEN, recorded


def main() -> int:
    """Write the file; names that are no export's any more leave it."""
    parser = argparse.ArgumentParser(prog="python -m tests.hw.golden", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = parser.parse_args().names or list(EXPORTS)
    for name in names:
        if name not in EXPORTS:
            parser.error(f"there is no export {name!r}; there are: {'; '.join(EXPORTS)}")
    hashes = recorded() if GOLDEN.exists() else {}
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            found = EXPORTS[name].hashes(Path(folder))
        if found != hashes.get(name):
            sys.stdout.write(f"{name}\n")
        hashes[name] = found
    kept = {name: hashes[name] for name in EXPORTS if name in hashes}
    GOLDEN.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
