"""Every option of every call has an effect on a kind of query, or the one table refuses it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

import penstock
from penstock.cli import explain as cli_explain
from penstock.cli import main
from penstock.cli import sql as cli_sql
from penstock.cli.options import _IN_PYTHON
from penstock.errors import PenstockError
from penstock.host.execute.running import Running
from penstock.host.join.lookup.lookup_join import LookupOptions
from penstock.host.join.lookup.stream import LookupStream
from penstock.host.join.stream import Flow, JoinStream
from penstock.host.join.table.table_join import TableJoin
from penstock.host.prune.sizes import Pruning
from penstock.host.relation import RelationOptions, build
from penstock.host.workers.here import GroupStream
from penstock.uses import (
    COMMAND,
    EXPLAIN,
    PLAN,
    SPARK,
    SPARK_STREAM,
    STREAM,
    TABLES,
    QueryKind,
    UnusedError,
    Use,
    Way,
)

TABLE = pa.table(
    {
        "id": [1, 2, 3, 4],
        "k": [1, 1, 2, 2],
        "t": [10, 90, 95, 12],
        "u": [10, 20, 30, 40],
        "name": ["p", "q", "r", "s"],
        "x": [0.25, 0.5, 1.0, 2.0],
    }
)
STORED = pa.table({"k": [1, 2], "name": ["one", "two"]})

_TIMED = "b.t BETWEEN a.t - 5 AND a.t + 5 AND a.x <= b.x + 9 AND {small} AND {f}"
#: A query of each kind, with a parameter, a function and a float column in it, and what it is.
CASES: dict[str, tuple[str, set[QueryKind], set[Way]]] = {
    "time": (f"SELECT a.id, b.id AS j FROM a JOIN b ON {_TIMED}", {QueryKind.TIME}, set()),
    "grouped": (
        f"SELECT a.id, a.t, count(*) AS n FROM a JOIN b ON {_TIMED} GROUP BY a.id, a.t",
        {QueryKind.TIME, QueryKind.GROUPED},
        set(),
    ),
    "rows": (
        "SELECT a.id FROM a [ROWS 3] LEFT SEMI JOIN b [ROWS 3] ON a.id = b.id + 1 "
        "AND a.x <= b.x + 9 AND {small} AND {f}",
        {QueryKind.ROWS},
        set(),
    ),
    "sessions": (
        "SELECT a.id, b.id AS j FROM a JOIN b ON session_window(a.t, 10) = session_window(b.t, 10) "
        "AND a.k = b.k AND a.x <= b.x + 9 AND {small} AND {f}",
        {QueryKind.SESSIONS},
        set(),
    ),
    "nearest": (
        "SELECT a.id, b.id AS j FROM a JOIN b EXACT NEAREST BY DISTANCE abs(a.u - b.u) "
        "ON b.t BETWEEN a.t - 5 AND a.t + 5 AND a.x <= b.x + 9 AND {small} AND {f}",
        {QueryKind.NEAREST},
        set(),
    ),
    "groups": (
        "SELECT a.id, a.t, sum(a.x) AS s FROM a WHERE {small} GROUP BY a.id, a.t",
        {QueryKind.GROUPS},
        set(),
    ),
    "look-up": (
        "SELECT a.id, a.x, c.name FROM a JOIN c ON a.k = c.k AND a.x < 9 AND {small} AND {f}",
        {QueryKind.LOOKUP},
        set(),
    ),
    "groups of a look-up": (
        "SELECT a.t, c.name, sum(a.x) AS s FROM a JOIN c ON a.k = c.k WHERE {small} "
        "GROUP BY a.t, c.name",
        {QueryKind.GROUPED_LOOKUP},
        set(),
    ),
    "parts": (
        f"SELECT a.id, upper(a.name) AS w FROM a JOIN b ON {_TIMED} ORDER BY a.id, b.id",
        {QueryKind.TIME, QueryKind.GROUPED},
        {Way.PARTS},
    ),
    "plain": (
        "SELECT a.id, a.x FROM a WHERE {small} AND {f} ORDER BY a.id",
        {QueryKind.PLAIN},
        {Way.PARTS},
    ),
}


@penstock.udf
def always(one, other):
    return one + other > -1


@penstock.udf
def never(one, other):
    return one + other < -1


def is_refused(
    table: Mapping[str, Use], option: str, kinds: set[QueryKind], ways: set[Way]
) -> bool:
    use = table[option]
    return bool(ways & set(use.never)) or not kinds & set(use.kinds)


def sides(text: str) -> set[str]:
    return {name for name in "abc" if f" {name}" in text.partition("FROM")[2]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("uses")
    pq.write_table(TABLE, path / "t.parquet")
    build(STORED, str(path / "c.rel"), RelationOptions(key=("k",))).close()
    return path


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What drivers of queries get: settings that change no row are seen there."""
    seen: list[str] = []
    plain = (bool, int, float, str, dict, Running, Flow, Pruning, type(None))
    for one in (TableJoin, JoinStream, GroupStream, LookupStream, LookupOptions):

        def made(
            self: Any, *args: Any, _one: type = one, _init: Any = one.__init__, **kwargs: Any
        ) -> None:
            shown = [value for value in args if isinstance(value, plain)]
            named = {name: v for name, v in kwargs.items() if isinstance(v, plain)}
            seen.append(f"{_one.__name__} {shown} {named}")
            _init(self, *args, **kwargs)

        monkeypatch.setattr(one, "__init__", made)
    meter = cli_sql.meter
    monkeypatch.setattr(
        cli_sql, "meter", lambda shown: seen.append(f"meter {shown}") or meter(shown)
    )
    return seen


#: Values that change what a query does, or that its kind of query finds wrong.
PYTHON: dict[str, Any] = {
    "time": {"a": "name"},
    "rows": 1,
    "within": 0,
    "params": {"lim": 2},
    "scale": {"a.x": 0, "b.x": 0},
    "time_zone": "Nowhere/Town",
    "ansi": "perhaps",
    "functions": {"f": never},
    "disorder": 1,
    "device": "abacus",
    "operator": "window",
    "pruning": False,
    "running": Running(ordered=True, depth=5),
    "memory_bytes": 1,
    "unique": {"a": "id"},
    "flow": Flow(latency_s=0.25),
    "trace": True,
}
#: Options that start processes, whose effects tests/host/workers has.
PROCESSES = {"workers": 2, "checkpoint": "folder", "release": "commit"}
#: What the queries give without an option, by call and case.
plain_outcomes: dict[tuple[str, str], Any] = {}
#: Pairs of which the option makes another kind of query.
ROWS_OF = {("rows", "time"), ("rows", "grouped")}
#: Options that keep a promise which holds anyway.
HOLDS = {
    ("running", "groups"): "groups of one process come in order",
    ("unique", "groups"): "groups by the time are complete without it",
    ("unique", "grouped"): "as these",
    ("unique", "parts"): "as these",
    ("unique", "groups of a look-up"): "as these",
    ("unique", "look-up"): "a look-up without groups releases rows at once",
    ("time", "plain"): "DuckDB needs none; its column is looked for",
}


def call_of(folder: Path, case: str, more: dict[str, Any]) -> tuple[str, set[str], dict[str, Any]]:
    """The text of a case, its tables, and options."""
    is_shared = more.keys() & PROCESSES.keys()
    text = CASES[case][0].format(small="a.k < lim", f="a.k > 0" if is_shared else "f(a.k, a.k)")
    streams = sides(text) & {"a", "b"}
    options: dict[str, Any] = {"params": {"lim": 99}}
    if case not in ("look-up", "plain"):
        options["time"] = dict.fromkeys(streams, "t")
    if "f(" in text:
        options["functions"] = {"f": always}
    if "scale" in more:
        more = {"scale": {f"{name}.x": 0 for name in streams}}
    return text, streams, options | more


def outcome_of_tables(folder: Path, case: str, engine: list[str], more: dict[str, Any]) -> Any:
    text, streams, options = call_of(folder, case, more)
    tables: dict[str, Any] = dict.fromkeys(streams, TABLE)
    if "c" in sides(text):
        tables["c"] = penstock.relation(folder / "c.rel")
    del engine[:]
    try:
        return penstock.sql(text, tables, **options).to_pylist(), list(engine)
    except PenstockError as error:
        return error


def outcome_of_streams(folder: Path, case: str, engine: list[str], more: dict[str, Any]) -> Any:
    text, streams, options = call_of(folder, case, more)
    schemas: dict[str, Any] = dict.fromkeys(streams, TABLE.schema)
    if "c" in sides(text):
        schemas["c"] = penstock.relation(folder / "c.rel")
    del engine[:]
    try:
        with penstock.stream(text.partition(" ORDER BY")[0], schemas, **options) as stream:
            for name in sorted(streams):
                stream.push(name, TABLE.sort_by("t"))
            return stream.close().to_pylist(), list(engine)
    except PenstockError as error:
        return error


def assert_says(error: UnusedError, spelling: str) -> None:
    assert str(error).startswith(f"{spelling} is not for ")
    assert str(error).endswith(f"; leave {spelling} out")


def names(function: Any) -> set[str]:
    kinds = inspect.signature(function).parameters
    return {name for name, one in kinds.items() if one.kind is inspect.Parameter.KEYWORD_ONLY}


def options_of(app: typer.Typer) -> dict[str, str]:
    """Options of a command, by Python's names; values are their spellings."""
    command: Any = typer.main.get_command(app)
    return {
        _IN_PYTHON.get(one.name, one.name): max(one.opts, key=len)
        for one in command.params
        if one.param_type_name == "option" and one.name != "help"
    }


def test_the_tables_have_the_options_of_the_calls() -> None:
    assert TABLES.keys() == names(penstock.sql)
    assert PLAN.keys() == names(penstock.explain)
    assert STREAM.keys() == names(penstock.stream)
    assert COMMAND.keys() - {"functions"} == options_of(cli_sql.app).keys()
    assert EXPLAIN.keys() == options_of(cli_explain.app).keys()


def test_the_tables_have_the_options_of_spark() -> None:
    pytest.importorskip("pyspark")
    from penstock.spark_bridge import explain, sql, stream
    from penstock.spark_bridge.request import JoinOptions

    shared = set(JoinOptions.__optional_keys__)
    assert SPARK.keys() == names(sql) | names(explain) | shared
    assert SPARK_STREAM.keys() - {"extended"} == names(stream) | shared


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("option", TABLES)
def test_tables(folder: Path, engine: list[str], option: str, case: str) -> None:
    _, kinds, ways = CASES[case]
    value = PYTHON.get(option, PROCESSES.get(option))
    if is_refused(TABLES, option, kinds, ways) and (option, case) not in ROWS_OF:
        found = outcome_of_tables(folder, case, engine, {option: value})
        assert isinstance(found, UnusedError), found
        assert_says(found, f"{option}=")
    elif option not in PROCESSES and (option, case) not in HOLDS:
        if ("penstock.sql", case) not in plain_outcomes:
            plain_outcomes["penstock.sql", case] = outcome_of_tables(folder, case, engine, {})
        plain = plain_outcomes["penstock.sql", case]
        assert not isinstance(plain, PenstockError), plain
        found = outcome_of_tables(folder, case, engine, {option: value})
        assert not isinstance(found, UnusedError), found
        assert repr(found) != repr(plain)


# Nearest rows of streams are ranked pairs, see test_nearest_of_streams.py.
@pytest.mark.parametrize("case", [case for case in CASES if case not in ("plain", "nearest")])
@pytest.mark.parametrize("option", STREAM)
def test_streams(folder: Path, engine: list[str], option: str, case: str) -> None:
    _, kinds, ways = CASES[case]
    more = {option: PYTHON.get(option, PROCESSES.get(option))}
    ways = ways | ({Way.UNSAVED} if option == "release" else set())
    if is_refused(STREAM, option, kinds, ways) and (option, case) not in ROWS_OF:
        found = outcome_of_streams(folder, case, engine, more)
        assert isinstance(found, UnusedError), found
        assert_says(found, f"{option}=")
    elif option not in PROCESSES and (option, case) not in HOLDS:
        if ("stream", case) not in plain_outcomes:
            plain_outcomes["stream", case] = outcome_of_streams(folder, case, engine, {})
        plain = plain_outcomes["stream", case]
        assert not isinstance(plain, PenstockError), plain
        found = outcome_of_streams(folder, case, engine, more)
        assert not isinstance(found, UnusedError), found
        assert repr(found) != repr(plain)


#: Options that say what is read; those of CSV files are in test_cli_files.py.
READ = {"table", "relation", "text_file", "delimiter", "no_header", "null"}
#: Options whose effects on the command line are in test_ansi.py and test_explain.py.
ELSEWHERE = {"ansi", "open_page"}
#: What the command line has beside Python.
SHELL: dict[str, list[str]] = {
    "time": ["--time", "a=name"],
    "rows": ["--rows", "1"],
    "within": ["--within", "0"],
    "params": ["--param", "lim=2"],
    "scale": ["--scale", "a.x=0"],
    "time_zone": ["--time-zone", "Nowhere/Town"],
    "disorder": ["--disorder", "1"],
    "device": ["--device", "abacus"],
    "operator": ["--operator", "window"],
    "pruning": ["--no-pruning"],
    "running": ["--ordered"],
    "memory_bytes": ["--memory", "1"],
    "workers": ["--workers", "2"],
    "nodes": ["--nodes", "nowhere"],
    "nodes_token": ["--nodes-token", "missing"],
    "algorithm": ["--algorithm", "best"],
    "threads": ["--threads", "0"],
    "address": ["--address", "unix:///nowhere"],
    "out": ["--out", "out.csv"],
    "show": ["--show", "1"],
    "stats": ["--stats", "stats.json"],
    "trace": ["--trace", "trace.json"],
    "metrics_port": ["--metrics-port", "0"],
    "page": ["--page", "0.0.0.0:0"],  # refused without a token, where it is used
    "page_token_file": ["--page-token-file", "missing"],
    "no_band": ["--no-band"],
    "analyze": ["--analyze"],
    "html": ["--html", "plan.html"],
    "progress": ["--no-progress"],
    **{
        name: [f"--{name.replace('_', '-')}", "4"]
        for name in ("units", "pipelines", "key_bits", "banks", "rows_depth", "vcd", "token_file")
    },
    "package": ["--package", "missing"],
}
#: Pairs of a kind of query and an option that the command line gives no effect but a promise.
SHELL_HOLDS = {
    ("running", "groups"),
    ("running", "groups of a look-up"),
    ("time", "plain"),
    ("scale", "groups of a look-up"),  # no plan shows the type of a sum
}
#: What says that nothing but the plain outcome is there: the device is the CPU's, on one machine.
OF_OTHER_DEVICES = {
    *("units", "pipelines", "key_bits", "banks", "rows_depth", "vcd", "token_file", "package")
}


def run_shell(
    command: str,
    folder: Path,
    case: str,
    more: list[str],
    engine: list[str],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    place: Path,
) -> tuple[int, Any]:
    """Exit status, and the message of an error or whatever there is to see of an effect."""
    text = CASES[case][0].format(small="a.k < lim", f="a.k > 0")
    arguments = ["penstock", command, text]
    if not any(one.startswith("--param") for one in more):
        arguments += ["--param", "lim=99"]
    for name in sorted(sides(text)):
        stored = f"c={folder / 'c.rel'}"
        arguments += (
            ["--relation", stored] if name == "c" else ["-t", f"{name}={folder / 't.parquet'}"]
        )
        if name != "c" and case not in ("look-up", "plain") and "--time" not in more:
            arguments += ["--time", f"{name}=t"]
    monkeypatch.chdir(place)
    monkeypatch.setattr("sys.argv", [*arguments, *more])
    del engine[:]
    status = main._status()
    out, err = capfd.readouterr()
    if status:
        return status, err
    served = "metrics: " in err
    return status, (out, sorted(one.name for one in place.iterdir()), served, list(engine))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "option", sorted(COMMAND.keys() - {"functions", *READ, *ELSEWHERE}), ids=str
)
def test_command(
    folder: Path,
    engine: list[str],
    option: str,
    case: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    check_shell("sql", COMMAND, folder, engine, option, case, capfd, monkeypatch, tmp_path)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("option", sorted(EXPLAIN.keys() - READ - ELSEWHERE), ids=str)
def test_explain(
    folder: Path,
    engine: list[str],
    option: str,
    case: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    check_shell("explain", EXPLAIN, folder, engine, option, case, capfd, monkeypatch, tmp_path)


def check_shell(
    command: str,
    table: Mapping[str, Use],
    folder: Path,
    engine: list[str],
    option: str,
    case: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    place: Path,
) -> None:
    _, kinds, ways = CASES[case]
    around = (engine, capfd, monkeypatch, place)
    more = SHELL[option]
    if option == "nodes_token":
        ways = ways | {Way.NODELESS}
    if is_refused(table, option, kinds, ways) and (option, case) not in ROWS_OF:
        status, message = run_shell(command, folder, case, more, *around)
        if case == "plain" and option in ("device", "address", "threads"):
            assert status  # the device is opened before anybody knows that no part takes one
            return
        assert status == 2
        assert message.startswith(f"penstock: {more[0]} is not for "), message
        assert message.endswith(f"; leave {more[0]} out\n")
    elif option not in PROCESSES and (option, case) not in SHELL_HOLDS:
        if (command, case) not in plain_outcomes:
            plain_outcomes[command, case] = run_shell(command, folder, case, [], *around)
        status, plain = plain_outcomes[command, case]
        assert status == 0, plain
        status, found = run_shell(command, folder, case, more, *around)
        if option not in OF_OTHER_DEVICES:
            assert not status or "is not for" not in found, found
        assert found != plain
