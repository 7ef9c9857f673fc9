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
.penstock-plan svg { display: block; font: 12px ui-monospace, monospace; }
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
        "<title>Penstock: a plan</title>\n<style>body { margin: 0; } "
        ".penstock-plan { box-sizing: border-box; min-height: 100vh; }</style>\n</head>\n"
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
    """Draw nodes from top to bottom as SVG, each in a row behind those whose rows it takes."""
    texts = [
        [_cut(one.title, 1), *(_cut(line, _MOST_LINES) for line in one.lines)] for one in nodes
    ]
    heights = [_LINE * sum(map(len, lines)) + 18 for lines in texts]
    # A part that was only looked at leads nowhere; the last node is the output.
    shown = {len(nodes) - 1}
    for place in reversed(range(len(nodes))):
        shown.update(nodes[place].after if place in shown else ())
    rows: dict[int, list[int]] = defaultdict(list)
    depths = _depths(nodes)
    for place in sorted(shown):
        rows[depths[place]].append(place)
    corners: dict[int, tuple[int, int]] = {}
    y = 8
    for depth in sorted(rows):
        # Columns begin at the left, which a narrow screen shows; between them is room for edges.
        for column, place in enumerate(rows[depth]):
            corners[place] = (4 + column * (_WIDTH + _GAP), y)
        y += max(heights[place] for place in rows[depth]) + _DROP
    width = max(map(len, rows.values())) * (_WIDTH + _GAP)
    height = y - _DROP + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="plan">\n'
        '<defs><marker id="penstock-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>\n'
    ]
    for place, (x, y) in sorted(corners.items()):
        for above in nodes[place].after:
            x0, y0 = corners[above]
            y0 += heights[above]
            start = x0 + _WIDTH // 2
            parts.append(f'<path d="M{start} {y0}')
            if depths[place] - depths[above] > 1:  # beside the boxes between
                side = x0 + _WIDTH + _GAP // 2
                parts.append(f"C{start} {y0 + 22} {side} {y0} {side} {y0 + 22}V{y - 22}")
                start, y0 = side, y - 22
            end, middle = x + _WIDTH // 2, (y0 + y) // 2
            parts.append(f"C{start} {middle} {end} {middle} {end} {y - 1}")
            parts.append('" marker-end="url(#penstock-arrow)"/>\n')
    for place, corner in sorted(corners.items()):
        parts += _box(nodes[place], texts[place], *corner, heights[place])
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


def _box(node: Node, texts: Sequence[Sequence[str]], x: int, y: int, height: int) -> Iterator[str]:
    tip = escape("\n".join([node.title, *node.lines]))
    yield f'<g transform="translate({x} {y})"><title>{tip}</title>\n'
    yield f'<rect class="box" width="{_WIDTH}" height="{height}" rx="6"/>\n'
    yield f'<rect class="{escape(node.kind)}" width="5" height="{height}" rx="2"/>\n'
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
