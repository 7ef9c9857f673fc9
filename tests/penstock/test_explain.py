"""Explained queries: text, drawing, page; findings of tables, with remedies that work."""

from __future__ import annotations

import re
import shlex
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.api.explained import Explanation, Node
from penstock.api.plan_page import drawing
from penstock.errors import UsageError
from penstock.host.join.table.pair_findings import sampled
from penstock.host.join.table.table_join import TableJoin
from penstock.query import compile_query
from penstock.uses import UnusedError
from tests.penstock.cli.conftest import cli
from tests.penstock.kit.devices import InterpretingCpu

__all__ = ["cli"]

ROWS = 3_000
WINDOW = {"time": {"a": "t", "b": "t"}, "within": ROWS}
SELECT = "SELECT a.id AS i, b.id AS j FROM a JOIN b ON "
#: Of no key: but |a.x - b.x| <= 3 wherever it is TRUE.
GENERAL = "(a.x - b.x) * (a.x - b.x + 1) <= 6"


def table(seed: int, rows: int = ROWS) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(rows),
            "t": np.arange(rows),
            "x": rng.integers(0, 1_000, rows),
            "k": rng.integers(0, 50, rows),
            "f": rng.integers(0, 10_000, rows) / 100,
        }
    )


TABLES = {"a": table(1), "b": table(2)}


def explained(on: str, tables: Mapping[str, Any] = TABLES, **options: Any) -> Explanation:
    return penstock.explain(SELECT + on, tables, **{**WINDOW, **options})


def rules(plan: Explanation) -> list[str]:
    return [one.rule for one in plan.findings]


def pairs_tested(plan: Explanation) -> int:
    """Pairs that were tested in a run."""
    (text,) = (text for one in plan.sections for name, text in one.facts if name == "pairs"
               and "tested" in text)  # fmt: skip
    return int(text.split()[0].replace(",", ""))


def test_options_that_explain_does_not_have() -> None:
    with pytest.raises(UnusedError, match="analyze= is not for a query over one table"):
        penstock.explain("SELECT k, count(*) AS n FROM a GROUP BY k", TABLES, analyze=True)
    with pytest.raises(UsageError, match="memory_bytes"):
        explained("a.x = b.x", memory_bytes=-1)


@pytest.mark.parametrize(
    ("text", "options", "titles"),
    [
        (f"{SELECT} abs(a.x - b.x) < 3", WINDOW,
         ["a", "b", "window", "a probes b", "band, 1 test", "output"]),
        (f"{SELECT} {GENERAL}", {"rows": 5},
         ["a", "b", "window", "a probes b", "general form", "b probes a", "general form",
          "output"]),
        ("SELECT a.k, count(*) AS n FROM a JOIN b ON a.x < b.x GROUP BY a.k", WINDOW,
         ["a", "b", "window", "a probes b", "band, 1 test", "groups", "output"]),
        ("SELECT k, count(*) AS n FROM a GROUP BY k", {}, ["a", "groups", "output"]),
        ("SELECT a.id AS i, b.id AS j FROM a JOIN b ORDER BY abs(a.x - b.x) LIMIT 3", {}, None),
        ("SELECT s.k, max(s.n) AS m FROM (SELECT a.k, count(*) AS n FROM a JOIN b ON a.x < b.x "
         "AND abs(a.t - b.t) < 9 GROUP BY a.k) s GROUP BY s.k", {}, None),
    ],
)  # fmt: skip
def test_the_nodes_of_a_query(text: str, options: Any, titles: list[str] | None) -> None:
    if "rows" in options:
        options = {"rows": 5, "time": WINDOW["time"]}
    plan = penstock.explain(text, TABLES, **options)
    shown = [node.title for node in plan.nodes]
    if titles is None:  # in parts
        assert {"a", "b", "output"} < set(shown)
        assert "part" in [node.kind for node in plan.nodes]
    else:
        assert shown == titles
    assert all(one < place for place, node in enumerate(plan.nodes) for one in node.after)
    svg = ElementTree.fromstring(drawing(plan.nodes))
    boxes = [one for one in svg if one.tag.endswith("}g")]
    assert len(boxes) == len(plan.nodes)
    texts = " ".join("".join(one.itertext()) for one in boxes)
    assert all(title in texts for title in shown)


def test_nearest_rows_and_relations(tmp_path: Path, cli: Any) -> None:
    text = (
        "SELECT a.id AS i, n.id AS j FROM a JOIN LATERAL (SELECT * FROM b "
        "ORDER BY abs(b.x - a.x) LIMIT 2) n"
    )
    plan = penstock.explain(text, TABLES)
    assert "nearest rows" in [node.title for node in plan.nodes] or "part" in [
        node.kind for node in plan.nodes
    ]
    pq.write_table(TABLES["b"], tmp_path / "b.parquet")
    _, err, status = cli(
        "relation", "build", tmp_path / "b.parquet", "--out", tmp_path / "b.rel", "--key", "id"
    )
    assert status == 0, err
    stored = penstock.relation(tmp_path / "b.rel")
    plan = penstock.explain(
        "SELECT a.id AS i, b.x FROM a JOIN b ON a.id = b.id", {"a": TABLES["a"], "b": stored}
    )
    assert [node.title for node in plan.nodes] == ["a", "b", "a looks up", "output"]


def test_boxes_do_not_overlap_and_edges_go_down() -> None:
    nodes = [
        Node("source", "a", ["x" * 200]),
        Node("source", "b", []),
        Node("part", "one", ["long " * 60], (0, 1)),
        Node("source", "c", []),
        Node("part", "two", ["last"], (2, 1, 3)),
    ]
    svg = drawing(nodes)
    places = []
    for match in re.finditer(
        r'<g transform="translate\((\S+) (\S+)\)">.*?height="(\S+)"', svg, re.S
    ):
        places.append(tuple(map(float, match.groups())))
    boxes = [(x, y, x + 330, y + height) for x, y, height in places]
    for number, (left, top, right, bottom) in enumerate(boxes):
        assert not any(
            left < x1 and x0 < right and top < y1 and y0 < bottom
            for x0, y0, x1, y1 in boxes[:number]
        )
        assert all(boxes[one][3] < top for one in nodes[number].after)
    # Edges from a row to the next go straight, others around the boxes between.
    assert [edge.count("V") for edge in re.findall(r'<path d="(M[^0][^"]*)"', svg)] == [
        0,
        0,
        0,
        1,
        0,
    ]
    # No line of text is wider than its box.
    assert max(len(one) for one in re.findall(r"<text[^>]*>([^<]*)", svg)) <= 42


class Tags(HTMLParser):
    """Tags of a page, and all addresses that it names."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)


def test_a_users_text_is_no_markup() -> None:
    evil = '</title></pre><script>alert("1")</script><img src=x onerror=alert(1)>'
    one = TABLES["a"].append_column("<b onclick=x>", TABLES["a"]["k"])
    text = (
        f"SELECT a.`<b onclick=x>` AS `<script>`, `<i>`.id AS j FROM a JOIN b AS `<i>` ON '{evil}' "
        "<> concat(a.x, '') AND a.`<b onclick=x>` < `<i>`.k"
    )
    options = {"time": {"a": "t", "<i>": "t"}, "within": ROWS}
    plan = penstock.explain(text, {"a": one, "b": TABLES["b"]}, **options)
    for shown in (plan.html(), plan._repr_html_()):
        page = Tags(shown)
        assert not page.tags & {"script", "img", "b onclick=x", "link", "iframe", "a", "i"}
        assert not page.attributes & {"onerror", "onclick", "src", "href"}
        assert "&lt;script&gt;" in shown
        assert "http" not in shown.replace("http://www.w3.org/2000/svg", "").replace(
            "http-equiv", ""
        )
        shown.encode()


def test_text_page_and_command_say_the_same(tmp_path: Path, cli: Any) -> None:
    for name, one in TABLES.items():
        pq.write_table(one, tmp_path / f"{name}.parquet")
    options = [f"--table={name}={tmp_path / name}.parquet" for name in TABLES]
    options += ["--time=a=t", "--time=b=t", f"--within={ROWS}", "--analyze"]
    page = tmp_path / "plan.html"
    page.write_text("old")
    query = f"{SELECT} abs(a.x - b.x) < 3"
    out, err, status = cli("explain", query, *options, "--html", page)
    assert (status, err) == (0, f"plan: {page}\n")
    plan = explained("abs(a.x - b.x) < 3", analyze=True)
    is_time = re.compile(r"[\d.e-]+ s\b")
    lines = [is_time.sub("", line) for line in str(plan).splitlines()]
    assert [is_time.sub("", line.rstrip()) for line in out.strip().splitlines()] == lines
    shown = page.read_text()
    assert shown.startswith("<!DOCTYPE html>")
    pairs = re.findall(r"pairs +(\S+) tested", out)[-1]
    assert f"{pairs} tested" in shown
    _, err, status = cli("explain", query, *options, "--html", tmp_path / "a.parquet")
    assert (status, "is read by this command" in err) == (2, True), shlex.quote(err)
    _, err, status = cli("explain", query, *options, "--html", tmp_path / "none" / "x.html")
    assert status != 0


def test_open_shows_the_page(tmp_path: Path, cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) is None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pq.write_table(TABLES["a"], tmp_path / "a.parquet")
    query = "SELECT k, count(*) AS n FROM a GROUP BY k"
    _, err, status = cli("explain", query, f"--table=a={tmp_path / 'a.parquet'}", "--open")
    assert status == 0, err
    page = Path(opened[0].removeprefix("file://"))
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert page.parent.stat().st_mode & 0o077 == 0  # others cannot read the query


# -- findings -------------------------------------------------------------------------------------


def test_last_comparison() -> None:
    before = explained(GENERAL, analyze=True)
    assert rules(before) == ["last comparison"]
    assert "`(a.x - b.x) * ((a.x - b.x) + 1)` mixes both sides" in before.findings[0].text
    assert "such as b.x BETWEEN a.x - 3 AND a.x + 3, or an equality" in before.findings[0].remedy
    after = explained(f"{GENERAL} AND b.x BETWEEN a.x - 3 AND a.x + 3", analyze=True)
    assert rules(after) == []
    assert pairs_tested(after) < pairs_tested(before) / 50
    # Each of two comparisons fails for most pairs, but neither does so alone.
    both = explained(f"{GENERAL} AND (a.k - b.k) * (a.k - b.k + 1) <= 0")
    assert rules(both) == []
    # Few pairs are no matter.
    assert rules(explained(GENERAL, {"a": table(1, 500), "b": table(2, 500)})) == []


def test_a_sample_that_has_every_pair() -> None:
    few = {"a": table(1, 300), "b": table(2, 400)}
    on = f"{SELECT} a.x * b.k < 900 AND a.k <> b.k"
    query = compile_query(on, {name: one.schema for name, one in few.items()}, **WINDOW)
    with InterpretingCpu() as device:
        join = TableJoin(query, few, device)
        (direction,) = join.directions
        sample = [passed.sum() for passed in sampled(join, direction).values()]
    x, k = few["a"]["x"].to_numpy()[:, None], few["a"]["k"].to_numpy()[:, None]
    other = few["b"]["k"].to_numpy()[None]
    assert sorted(sample) == sorted([(x * other < 900).sum(), (k != other).sum()])


def test_last_comparison_behind_an_order() -> None:
    on = "a.k = b.k AND "
    many = {"a": table(1, 30_000), "b": table(2, 30_000)}
    wide = {**WINDOW, "within": 30_000}
    before = penstock.explain(SELECT + on + GENERAL, many, **wide)
    assert rules(before) == ["last comparison"]
    assert any(node.lines[0].startswith("cells by b.k") for node in before.nodes if node.lines)
    after = penstock.explain(f"{SELECT}{on}{GENERAL} AND abs(a.x - b.x) <= 3", many, **wide)
    assert rules(after) == []


def test_a_cast_makes_a_band() -> None:
    on = "abs(a.f - b.f) < 60"
    before = explained(on)
    assert rules(before) == ["general"]
    assert ".f AS DECIMAL(18, 2))" in before.findings[0].remedy
    # No cast makes an integer, or a decimal, of a root.
    for root in ("sqrt(a.f * b.f) < 1", "sqrt(a.x * b.x) < 1"):
        assert "general" not in rules(explained(root))
    after = explained("abs(CAST(a.f AS DECIMAL(18, 2)) - CAST(b.f AS DECIMAL(18, 2))) < 60")
    assert rules(after) == []
    assert "band, 1 test" in [node.title for node in after.nodes]


def test_one_key_has_many_rows() -> None:
    ids = range(ROWS)
    rng = np.random.default_rng(5)
    keys = {name: np.where(rng.random(ROWS) < 0.4, 0, rng.integers(1, 50, ROWS)) for name in "ab"}
    tables = {name: one.set_column(3, "k", pa.array(keys[name])) for name, one in TABLES.items()}
    before = explained("a.k = b.k AND a.x <> b.x", tables, analyze=True)
    assert [one for one in rules(before) if one == "one key"] == ["one key"] * 2
    assert re.match(
        r"one value of a.k \(0\) has (39|4\d)\S* % of the rows of a", before.findings[0].text
    )
    after = penstock.explain(
        f"{SELECT} a.k = b.k AND a.x <> b.x WHERE a.k <> 0", tables, **WINDOW, analyze=True
    )
    assert "one key" not in [one.rule for one in after.findings if one.where == "a"]
    assert pairs_tested(after) < 0.7 * pairs_tested(before)
    assert "one key" not in rules(explained("a.k = b.k AND a.x <> b.x"))
    # Rows whose key is NULL count; a long value is cut.
    for most, expected in ((range(1_500), []), (range(2_500), ["one key"] * 2)):
        texts = pa.array([None if k % 2 else "z" * 9_999 if k in most else str(k) for k in ids])
        tables = {name: one.set_column(3, "k", texts) for name, one in TABLES.items()}
        found = explained("a.k = b.k AND a.x <> b.x", tables).findings
        assert [one.rule for one in found] == expected
        assert all(len(one.text) < 100 for one in found)


def test_copying_rows_out() -> None:
    texts = pa.array([f"{number:030}" for number in range(ROWS)])
    tables = {name: one.append_column("s", texts) for name, one in TABLES.items()}
    query = "SELECT {} FROM a JOIN b ON a.x < b.x"
    before = penstock.explain(query.format("a.s, b.s AS s2"), tables, **WINDOW, analyze=True)
    assert rules(before) == ["copying"]
    assert re.search(r"\d\d\S* % of the time .*: 4,479,216 rows of 2 col", before.findings[0].text)
    after = penstock.explain(query.format("count(*) AS n"), tables, **WINDOW, analyze=True)
    assert rules(after) == []
    assert rules(explained("abs(a.x - b.x) < 3", analyze=True)) == []


def test_units_that_do_not_meet() -> None:
    seconds = TABLES["a"].set_column(1, "t", pa.array(1_700_000_000 + np.arange(ROWS)))
    millis = TABLES["b"].set_column(1, "t", pa.array((1_700_000_000 + np.arange(ROWS)) * 1_000))
    tables = {"a": seconds, "b": millis}
    named = {"my s": seconds, "b": millis}
    query = "SELECT a.id AS i, b.id AS j FROM `my s` AS a JOIN b ON a.x < b.x"
    (found,) = penstock.explain(query, named, **WINDOW).findings
    assert "FROM (SELECT ..., t * 1000 AS t FROM `my s`) AS a" in found.remedy
    before = explained("a.x < b.x", tables)
    assert rules(before) == ["no times meet"]
    assert "multiply the former by 1,000" in before.findings[0].remedy
    query = "SELECT a.id AS i, b.id AS j FROM (SELECT id, x, t * 1000 AS t FROM a) AS a JOIN b ON "
    after = penstock.explain(query + "a.x < b.x", tables, **WINDOW)
    assert "no times meet" not in rules(after)
    assert not any("admits 0 pairs" in node.lines for node in after.nodes)
    far = TABLES["a"].set_column(1, "t", pa.array(10**6 + np.arange(ROWS)))
    (found,) = explained("a.x < b.x", {"a": far, "b": TABLES["b"]}).findings
    assert found.remedy == "see whether the times of both have one unit and epoch"


def test_nothing_matches() -> None:
    (found,) = explained("a.x + 2000 <= b.x AND a.k <= b.k + 50", analyze=True).findings
    assert found.rule == "no match"
    assert re.search(r"sampled ones passes \(a\.x \+ 2000\) <= b\.x$", found.text)
    assert "no match" not in rules(explained("a.x + 200 <= b.x", analyze=True))
    (found,) = penstock.explain(f"{SELECT} a.x < b.x WHERE a.k > 50", TABLES, **WINDOW).findings
    assert (found.rule, found.where) == ("no rows", "a")


def test_a_run_without_rows_of_few_pairs() -> None:
    few = {name: one.slice(0, 20) for name, one in TABLES.items()}
    (found,) = explained("a.x + 2000 <= b.x", few, analyze=True).findings
    assert found.text == "no pair of 400 sampled ones passes (a.x + 2000) <= b.x"
    empty = {name: one.slice(0, 0) for name, one in TABLES.items()}
    assert explained("a.x = b.x", empty, analyze=True).findings == ()
