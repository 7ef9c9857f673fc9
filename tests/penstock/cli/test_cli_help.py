"""``--help`` of each command ends with an example, and the example does what it says."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from importlib.util import find_spec

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
import typer

from penstock.cli.examples import _EXAMPLES, example
from penstock.cli.main import COMMANDS, app

#: Examples that end by themselves, in an order in which each has what it needs.
RUN = ("sql", "explain", "plan", "relation build", "relation info", "relation check")
RUN += ("relation update", "relation vacuum", "relation nodes add", "relation nodes list")
RUN += ("relation nodes drain",)


def commands(group, context, words: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the words of all commands and groups of commands."""
    for name in sorted(group.commands):
        _, command, _ = group.resolve_command(context, [name])
        yield " ".join((*words, name))
        if hasattr(command, "commands"):
            inner = command.make_context(name, [], parent=context, resilient_parsing=True)
            yield from commands(command, inner, (*words, name))


def named() -> list[str]:
    group = typer.main.get_command(app)
    with group.make_context("penstock", [], resilient_parsing=True) as context:
        return list(commands(group, context))


def arguments(command: str) -> list[str]:
    program, *rest = shlex.split(example(command).replace("\\\n", ""))
    assert program == "penstock"
    return rest


def test_each_command_has_an_example():
    names = named()
    assert set(COMMANDS) <= set(names)
    assert {*names, ""} == set(_EXAMPLES)


@pytest.mark.parametrize("command", sorted(_EXAMPLES))
def test_an_example_is_shown_whole_and_parses(cli, command):
    out, _, status = cli(*command.split(), "--help")
    assert status == 0
    assert out.rstrip().endswith(f"Example:\n\n{example(command)}")
    assert max(map(len, example(command).splitlines())) <= 80
    words = arguments(command)
    one = typer.main.get_command(app)
    context = one.make_context("penstock", [], resilient_parsing=True)
    while hasattr(one, "commands") and {*words[:1]} & {*one.commands}:
        name, one, words = one.resolve_command(context, words)
        is_leaf = not hasattr(one, "commands") or not {*words[:1]} & {*one.commands}
        context = one.make_context(
            name, words if is_leaf else [], parent=context, resilient_parsing=not is_leaf
        )


def test_examples_run_in_their_order(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    orders = pa.table({"id": [1, 2], "t": [10, 20], "x": [5, 9]})
    gps = pa.table({"id": [7, 8], "t": [12, 19], "x": [6, 50]})
    for name, rows in {"orders": orders, "gps": gps, "places": orders}.items():
        pc.write_csv(rows, f"{name}.csv")
    pc.write_csv(pa.table({"id": [1, 3], "t": [11, 30], "x": [5, 5]}), "new.csv")
    pc.write_csv(pa.table({"id": [2]}), "gone.csv")
    for command in RUN:
        out, err, status = cli(*arguments(command))
        assert status == 0, (command, out, err)
    assert pq.read_table("near.parquet").sort_by("id").to_pylist() == [
        {"id": 1, "vehicle": 7},
        {"id": 2, "vehicle": 7},
    ]


@pytest.mark.skipif(find_spec("amaranth") is None, reason="needs the rtl extra")
@pytest.mark.usefixtures("no_verilog_in_short")
def test_the_example_of_export(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("orders", "gps"):
        pc.write_csv(pa.table({"id": [1, 2], "t": [10, 20], "x": [5, 9]}), f"{name}.csv")
    _, err, status = cli(*arguments("export"))
    assert status == 0, err
    assert (tmp_path / "kernel" / "penstock_kernel.json").exists()
