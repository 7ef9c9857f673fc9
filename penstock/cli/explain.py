"""``penstock explain``: shows how a query is compiled, as text and as a page."""

from __future__ import annotations

import webbrowser
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated

import typer

from penstock.host.device.base import PAIRS
from penstock.host.rows.files import check_writable, write_text

from ..api.explaining import explanation
from ..errors import DeviceError, installing
from ..plan.shown import Fact
from ..program import GeneralProgram, Mode
from ..uses import EXPLAIN, Entrance
from . import inputs
from .options import Written, application
from .terminal import heading, note, say

Analyze = Annotated[
    bool,
    typer.Option("--analyze", help="Run joins, and show what they did beside what was expected."),
]
Html = Annotated[Path | None, typer.Option(help="Write a page with a drawing of the plan.")]
Open = Annotated[bool, typer.Option("--open", help="Show that page in the browser.")]


@application
def app(
    request: inputs.Asked,
    lookup: inputs.LookupArguments,
    written: Written,
    no_band: inputs.NoBand = False,
    analyze: Analyze = False,
    html: Html = None,
    open_page: Open = False,
) -> None:
    """Show the plan of a query: windows, widths, prepared keys, band tests, devices."""
    if html is not None:
        check_writable(html)
    query = request.over(lookup, Entrance(EXPLAIN, frozenset(written)))
    plan = explanation(
        query,
        request.query,
        memory_bytes=lookup.memory_bytes,
        band=not no_band,
        analyze=analyze,
        stages=_stages,
    )
    for section in plan.sections:
        heading(section.title)
        for line in section.lines():
            say(line)
    if html is None and open_page:
        html = Path(mkdtemp(prefix="penstock-plan-"), "plan.html")  # for this user's eyes only
    if html is not None:
        write_text(html, plan.html())
        note(f"plan: {html}")
    if open_page and html is not None and not webbrowser.open(html.resolve().as_uri()):
        note("no browser answers; open the file yourself")


def _stages(program: GeneralProgram, modes: frozenset[Mode]) -> Iterator[Fact]:
    """Say the stages of a build for a program, with the folded value if the modes need it."""
    try:
        from penstock.hw.join.config import JoinConfig
    except ModuleNotFoundError:
        yield "pipeline", f"not shown: it needs amaranth; {installing('rtl')}"
        return
    try:
        plan = JoinConfig(program=program, modes=modes | PAIRS).schedule
    except DeviceError as error:
        yield "pipeline", f"none: {error}"
        return
    yield "pipeline", f"{plan.stages} stages in hardware"
    for stage in plan.lines():
        yield f"  {stage}", ""
