"""An explained query as HTML: its findings, a drawing in SVG, its facts.

The page has no script, and names no other file: text of a user is escaped, never markup.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .explained import Explanation, Node

#: Pixels: of a box and the gaps around it, of a line of text and of a character.
_WIDTH, _GAP, _DROP, _LINE, _CHARACTER = 330, 28, 44, 17, 7.23
_CHARACTERS = int((_WIDTH - 30) / _CHARACTER)
#: Most lines that a text takes in a box; a tip has the whole.
_MOST_LINES = 3

_STYLE = """
.penstock-plan { --back: #ffffff; --box: #f6f8fa; --text: #1f2328; --faint: #59636e;
  --line: #d1d9e0; --source: #1a7f37; --window: #9a6700; --search: #0969da; --test: #8250df;
  --group: #bc4c00; --part: #0969da; --output: #cf222e; --note: #fff8c5;
  background: var(--back); color: var(--text); padding: 12px; line-height: 1.45;
  font-family: system-ui, sans-serif; font-size: 14px; }
@media (prefers-color-scheme: dark) { .penstock-plan { --back: #0d1117; --box: #151b23;
  --text: #f0f6fc; --faint: #9198a1; --line: #3d444d; --source: #3fb950; --window: #d29922;
  --search: #4493f8; --test: #ab7df8; --group: #db6d28; --part: #4493f8; --output: #f85149;
  --note: #2e2a1f; } }
.penstock-plan pre { font: 12px/1.45 ui-monospace, monospace; margin: 6px 0; overflow-x: auto;
  background: var(--box); color: var(--text); border: 1px solid var(--line); border-radius: 6px;
  padding: 8px; }
.penstock-plan pre.query { white-space: pre-wrap; overflow-wrap: anywhere; }
.penstock-plan ul { list-style: none; margin: 8px 0; padding: 0; }
.penstock-plan li { background: var(--note); border-left: 4px solid var(--window); margin: 6px 0;
  padding: 6px 10px; overflow-wrap: anywhere; }
.penstock-plan li small, .penstock-plan summary small { color: var(--faint); }
.penstock-plan li b { display: block; }
.penstock-plan .drawing { overflow-x: auto; }
.penstock-plan svg { display: block; margin: 0 auto; font: 12px ui-monospace, monospace; }
.penstock-plan svg text { fill: var(--faint); white-space: pre; }
.penstock-plan svg .title { fill: var(--text); font-weight: 600; }
.penstock-plan svg rect.box { fill: var(--box); stroke: var(--line); }
.penstock-plan svg path { fill: none; stroke: var(--faint); stroke-width: 1.5; }
.penstock-plan svg marker path { fill: var(--faint); stroke: none; }
.penstock-plan summary { cursor: pointer; padding: 4px 0; }
""" + "".join(
    f".penstock-plan svg .{kind} {{ fill: var(--{kind}); }}\n"
    for kind in ("source", "window", "search", "test", "group", "part", "output")
)


def page(plan: Explanation) -> str:
    """A whole page in HTML."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        "<title>Penstock: a plan</title>\n<style>body { margin: 0; }</style>\n</head>\n"
        f"<body>\n{fragment(plan)}</body>\n</html>\n"
    )


def fragment(plan: Explanation) -> str:
    """The part of a page that a notebook shows."""
    parts = [f'<div class="penstock-plan">\n<style>{_STYLE}</style>\n']
    parts.append(f'<pre class="query">{escape(plan.text.strip())}</pre>\n')
    if plan.findings:
        items = (
            f"<li><b>{escape(one.text)}</b> {escape(one.remedy)}"
            f"{f' <small>({escape(one.where)})</small>' if one.where else ''}</li>\n"
            for one in plan.findings
        )
        parts.append(f"<ul>\n{''.join(items)}</ul>\n")
    parts.append(f'<div class="drawing">\n{drawing(plan.nodes)}</div>\n')
    for section in plan.sections:
        text = escape("\n".join(section.lines()))
        title = escape(section.title)
        parts.append(f"<details><summary>{title}</summary><pre>{text}</pre></details>\n")
    return "".join([*parts, "</div>\n"])


def drawing(nodes: Sequence[Node]) -> str:
    """Draw nodes from top to bottom as SVG, each row behind those whose rows it takes."""
    texts = [
        [_cut(one.title, 1), *(_cut(line, _MOST_LINES) for line in one.lines)] for one in nodes
    ]
    heights = [_LINE * sum(map(len, lines)) + 18 for lines in texts]
    rows: dict[int, list[int]] = defaultdict(list)
    for place, depth in enumerate(_depths(nodes)):
        rows[depth].append(place)
    across = max((len(row) for row in rows.values()), default=0)
    width = across * _WIDTH + (across + 1) * _GAP
    corners: dict[int, tuple[float, float]] = {}
    y = 8.0
    for depth in sorted(rows):
        row = sorted(rows[depth], key=lambda place: _middle(nodes[place], corners))
        x = (width - len(row) * (_WIDTH + _GAP) + _GAP) / 2
        for number, place in enumerate(row):
            corners[place] = (x + number * (_WIDTH + _GAP), y)
        y += max(heights[place] for place in row) + _DROP
    height = max(y - _DROP + 8, 16)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" role="img" aria-label="plan">\n'
        '<defs><marker id="penstock-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>\n'
    ]
    for place, node in enumerate(nodes):
        parts += (_edge(corners, heights, one, place) for one in node.after)
    for place, node in enumerate(nodes):
        parts += _box(node, texts[place], *corners[place], heights[place])
    return "".join([*parts, "</svg>\n"])


def _depths(nodes: Sequence[Node]) -> list[int]:
    """The row of each node; sources stand right above the first node that takes their rows."""
    depths: list[int] = []
    for node in nodes:
        depths.append(1 + max((depths[one] for one in node.after), default=-1))
    for place, node in enumerate(nodes):
        takers = [depths[other] for other, one in enumerate(nodes) if place in one.after]
        if not node.after and takers:
            depths[place] = min(takers) - 1
    return depths


def _middle(node: Node, corners: dict[int, tuple[float, float]]) -> float:
    places = [corners[one][0] for one in node.after if one in corners]
    return sum(places) / len(places) if places else 0.0


def _edge(
    corners: dict[int, tuple[float, float]], heights: Sequence[float], above: int, below: int
) -> str:
    (x0, y0), (x1, y1) = corners[above], corners[below]
    x0, y0, x1 = x0 + _WIDTH / 2, y0 + heights[above], x1 + _WIDTH / 2
    bend = min(_DROP / 2, (y1 - y0) / 2)
    return (
        f'<path d="M{x0:g} {y0:g}V{y1 - 2 * bend:g}C{x0:g} {y1 - bend:g} {x1:g} {y1 - bend:g} '
        f'{x1:g} {y1 - 1:g}" marker-end="url(#penstock-arrow)"/>\n'
    )


def _box(
    node: Node, texts: Sequence[Sequence[str]], x: float, y: float, height: float
) -> Iterator[str]:
    tip = escape("\n".join([node.title, *node.lines]))
    yield f'<g transform="translate({x:g} {y:g})"><title>{tip}</title>\n'
    yield f'<rect class="box" width="{_WIDTH}" height="{height:g}" rx="6"/>\n'
    yield f'<rect class="{escape(node.kind)}" width="5" height="{height:g}" rx="2"/>\n'
    at = 4
    for number, lines in enumerate(texts):
        for line in lines:
            at += _LINE
            kind = ' class="title"' if number == 0 else ""
            yield f'<text{kind} x="16" y="{at}">{escape(line)}</text>\n'
    yield "</g>\n"


def _cut(text: str, most: int) -> list[str]:
    """A text in lines that fit a box; the last one ends with dots if that is not all of it."""
    lines = wrap(text, _CHARACTERS) or [""]
    if len(lines) > most:
        lines = [*lines[: most - 1], lines[most - 1][: _CHARACTERS - 1] + "…"]
    return lines
