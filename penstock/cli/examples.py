"""An example of each command, which ends its ``--help``."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

_NEAR = (
    '"SELECT o.id, g.id AS vehicle FROM orders o JOIN gps g\n'
    '  ON abs(o.x - g.x) < 5 AND g.t BETWEEN o.t - 9 AND o.t + 9"'
)
_FILES = "-t orders=orders.csv -t gps=gps.csv"
_TIMES = "--time o=t --time g=t"

#: Arguments of an example, by the words of its command; a line each.
_EXAMPLES = {
    "": (f"sql {_NEAR}", f"{_FILES} {_TIMES}"),
    "sql": (_NEAR, f"{_FILES} {_TIMES} -o near.parquet"),
    "explain": (_NEAR, f"{_FILES} {_TIMES} --analyze"),
    "devices": ("--address unix:///tmp/penstock.sock",),
    "demo": ("--out build/demo --units 32",),
    "synth": ("--units 64 --band 2 --key-bits 32",),
    "export": ("--board u280 --units 64 -o kernel", f"--sql {_NEAR}", f"{_FILES} {_TIMES}"),
    "plan": ("--window 180s --rate 100000 --latency 200ms --board u280",),
    "relation": ("build places.csv --key id --out places.rel",),
    "relation build": ("places.csv --key id --out places.rel",),
    "relation update": ("places.rel --upserts new.csv --deletes gone.csv",),
    "relation info": ("places.rel",),
    "relation check": ("places.rel",),
    "relation vacuum": ("places.rel --keep 3 --keep-for 1h",),
    "relation nodes": ("list places.rel",),
    "relation nodes add": ("places.rel n1 --address tcp://127.0.0.1:7001",),
    "relation nodes drain": ("places.rel n1",),
    "relation nodes list": ("places.rel --json",),
    "top": ("8787 --once",),
    "serve": ("--listen unix:///tmp/penstock.sock --device cpu --threads 2",),
    "board": ("--virtual pynq-z2 --listen 127.0.0.1:7967",),
    "board package": ("--board pynq-z2 --virtual --units 16 --out package",),
    "board build": ("--board pynq-z2 --units 64 --out build/board --scripts-only",),
    "board selftest": ("--address 192.168.2.99:7967 --package package",),
    "spark": ("cluster --workers 2 --cores 2",),
    "spark cluster": ("--workers 2 --cores 2",),
    "spark stop": ("",),
    "spark pack": ("--output penstock.tar.gz",),
}


def example(command: str) -> str:
    """Return the example of a command, given by its words, as a shell takes it."""
    first, *more = _EXAMPLES[command]
    lines = [" ".join(filter(None, ("penstock", command, first))), *(f"  {line}" for line in more)]
    return " \\\n".join(lines)


class _Shown:
    """Ends the help of a command with its example, in lines that a shell takes as they are."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)  # pyright: ignore[reportAttributeAccessIssue]
        words, one = [], ctx
        while one.parent is not None:
            words.insert(0, one.info_name)
            one = one.parent
        formatter.write(f"Example:\n\n{example(' '.join(words))}\n")


class Command(_Shown, TyperCommand):
    """A command whose help ends with an example."""


class CommandGroup(_Shown, TyperGroup):
    """A group of commands whose help ends with an example."""
