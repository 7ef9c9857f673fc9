"""Groups of options, and what ``penstock --help`` loads."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import field
from importlib import import_module
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from penstock.cli.main import COMMANDS
from penstock.cli.options import group, grouped, option

#: Packages that only the commands themselves need.
HEAVY = ("numpy", "pyarrow", "numba", "sqlglot", "prometheus_client", "matplotlib", "amaranth")


@group
class Inner:
    """A group within a group."""

    count: int | None = option("How many.")
    name: list[str] | None = option("Names.", "--name", "-n")


@group
class Outer:
    """A group."""

    first: str = option("Required.", required=True)
    size: int = option("Limited.", default=3, min=1)
    inner: Inner = field(default_factory=Inner)
    last: Annotated[bool, typer.Option("--last", help="Annotated, as Typer has it.")] = False


@grouped
def command(outer: Outer, after: str = option("Of its own.", default="x")) -> None:
    """Print what came."""
    typer.echo(repr((outer, after)))


app = typer.Typer(add_completion=False)
app.command()(command)


@pytest.mark.parametrize(
    ("words", "ends"),
    [
        ("penstock sql --tab", ["--table"]),
        pytest.param("penstock re", ["relation"], marks=pytest.mark.slow),
        pytest.param("penstock spark p", ["pack"], marks=pytest.mark.slow),
    ],
)
def test_bash_completes_commands_and_options(words, ends):
    environment = {
        **os.environ,
        "_PENSTOCK_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    command = [str(Path(sys.executable).with_name("penstock"))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ends


def called(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, arguments)
    return done.exit_code, done.output


def test_options_of_groups_reach_the_command_in_their_groups():
    arguments = ["--first", "a", "--count", "5", "-n", "b", "--name", "c", "--last", "--after", "y"]
    outer = Outer(first="a", size=3, inner=Inner(count=5, name=["b", "c"]), last=True)
    assert called(*arguments) == (0, f"{(outer, 'y')!r}\n")
    assert called("--first", "a") == (0, f"{(Outer(first='a'), 'x')!r}\n")


def test_help_lists_options_in_the_order_of_the_groups():
    status, text = called("--help")
    assert status == 0
    names = ("--first", "--size", "--count", "--name", "--last", "--after")
    assert sorted(names, key=text.index) == list(names)
    for part in ("How many.", "[required]", "[default: 3]", "-n", "Print what came."):
        assert part in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing option '--first'"),
        (("--first", "a", "--size", "0"), "--size"),
        (("--first", "a", "--count", "b"), "--count"),
        (("--first", "a", "--inner", "b"), "No such option: --inner"),
    ],
)
def test_wrong_options_are_refused(arguments: tuple[str, ...], message: str):
    status, text = called(*arguments)
    assert status == 2
    assert message in text


def test_two_groups_cannot_have_one_option():
    def twice(one: Inner, other: Inner) -> None:
        pass

    with pytest.raises(ValueError, match="duplicate parameter name"):
        grouped(twice)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_their_own_help_says(name: str):
    module = import_module(f"penstock.cli.{name}")
    loaded = typer.main.get_command(module.app)
    assert (loaded.help or "").partition("\n")[0] == COMMANDS[name]


def test_help_loads_nothing_heavy():
    ask = (
        "import sys; sys.argv = ['penstock', '--help']\n"
        "from penstock.cli.main import _status\n"
        "status = _status()\n"
        f"print(status, [m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", ask], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.splitlines()[-1] == "0 []", done.stderr
