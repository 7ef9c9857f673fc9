"""Run the examples and write their pages: ``python examples/pages.py [NAME ...]``.

An example is a script in cells (``# %%``), as editors and Jupytext know them. A page has its text,
its code, what each cell printed, and its pictures; streams are generated ones. Some are notebooks,
too, with the same cells. ``--check`` compares pages with those in docs/gallery and writes nothing.
Pages of measurements are only written if they are named: they take minutes, and differ each time.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import sys
from contextlib import redirect_stdout
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs" / "gallery"
NAMES = (
    "two_files", "orders_vehicles", "aircraft", "quotes", "dns_tls", "calls", "intervals",
    "nearest", "bids", "lightning",
)  # fmt: skip
#: Pages of measurements.
MEASURED = ("demo", "papers")
#: Those of which there are no recorded streams.
GENERATED = ("two_files", "calls", "intervals", "nearest", "bids", "lightning")
#: Those that are notebooks, too.
NOTEBOOKS = ("two_files", "lightning")

_CELL = re.compile(r"^# %%(?P<kind>.*)\n", re.M)
#: Where a cell saves a picture.
_PICTURE = re.compile(r'^\s*(?:save\(figure, |show\()"(?P<name>\w+)"', re.M)
#: Remarks for lint, which say nothing to a reader.
_REMARK = re.compile(r"  # (noqa|pyright).*")


def cells(name: str) -> list[tuple[bool, str]]:
    """Cells of an example: whether each is text, and what is in it."""
    text = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    starts = list(_CELL.finditer(text))
    ends = [match.start() for match in starts[1:]] + [len(text)]
    found = []
    for match, end in zip(starts, ends, strict=True):
        is_text = "[markdown]" in match["kind"]
        body = text[match.end() : end].strip()
        if is_text:
            body = "\n".join(line.removeprefix("#").removeprefix(" ") for line in body.split("\n"))
        found.append((is_text, body))
    return found


def page(name: str, printed: list[str]) -> str:
    """A page, from what each cell of code printed."""
    parts, outputs = [], iter(printed)
    for is_text, body in cells(name):
        if is_text:
            parts.append(body)
            continue
        parts.append("```python\n" + _REMARK.sub("", body) + "\n```")
        output = next(outputs)
        if output.strip():
            lines = "\n".join(line.rstrip() for line in output.rstrip().split("\n"))
            parts.append(f"```text\n{lines}\n```")
        parts += [f"![What the example draws]({one}.png)" for one in _PICTURE.findall(body)]
    if name in MEASURED:
        return "\n\n".join([*parts, f"*`make examples ARGS={name}` writes the page.*"]) + "\n"
    recorded = "; with `PENSTOCK_DATA` naming a folder of recorded ones, they are those"
    book = f", as does [the notebook](../../examples/{name}.ipynb)" if name in NOTEBOOKS else ""
    parts.append(
        f"*`python examples/{name}.py` runs all of this{book}. The streams of this page are "
        f"generated{'' if name in GENERATED else recorded}. `make examples` writes the page.*"
    )
    return "\n\n".join(parts) + "\n"


def pictures(name: str) -> list[str]:
    """Names of an example's pictures, in the order of its page."""
    return [one for is_text, body in cells(name) if not is_text for one in _PICTURE.findall(body)]


def notebook(name: str) -> str:
    """A notebook of Jupyter with an example's cells, none of which has run."""
    made = []
    for number, (is_text, body) in enumerate(cells(name)):
        kind: dict = {"cell_type": "markdown" if is_text else "code"}
        if not is_text:
            kind |= {"execution_count": None, "outputs": []}
        lines = _REMARK.sub("", body).splitlines(keepends=True)
        made.append(kind | {"id": f"{name}-{number}", "metadata": {}, "source": lines})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1) + "\n"


def ran(name: str) -> list[str]:
    """Run an example; what each cell of code printed."""
    scope, printed = {"__name__": name}, []
    for is_text, body in cells(name):
        if is_text:
            continue
        output = io.StringIO()
        with redirect_stdout(output):
            exec(compile(body, f"examples/{name}.py", "exec"), scope)
        printed.append(output.getvalue())
    return printed


def main() -> int:
    """Returns the exit code: 1 if a page is not what its example gives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", default=NAMES)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("build/examples"))
    given = parser.parse_args()
    os.environ.pop("PENSTOCK_DATA", None)
    status = 0
    for name in given.names or NAMES:
        text, path = page(name, ran(name)), DOCS / f"{name}.md"
        if given.check:
            if path.read_text(encoding="utf-8") != text:
                (given.out / f"{name}.md").write_text(text, encoding="utf-8")
                print(f"{path} is not what the example gives: see {given.out / name}.md")
                status = 1
            continue
        path.write_text(text, encoding="utf-8")
        for picture in pictures(name):
            shutil.copy(given.out / f"{picture}.png", DOCS / f"{picture}.png")
        if name in NOTEBOOKS:
            (ROOT / "examples" / f"{name}.ipynb").write_text(notebook(name), encoding="utf-8")
        print(f"wrote {path}")
    return status


if __name__ == "__main__":
    sys.exit(main())
