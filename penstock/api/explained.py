"""An explained query: facts for people to read, a drawing of its nodes, findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from penstock.host.metrics.findings import Finding

from ..plan.shown import Fact
from . import plan_page


@dataclass(frozen=True)
class Section:
    """Facts under a heading."""

    title: str
    facts: list[Fact] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The facts, one a line."""
        return [f"{name:12} {text}".rstrip() for name, text in self.facts]


@dataclass(frozen=True)
class Node:
    """A box of the drawing.

    Parameters
    ----------
    kind : str
        "source", "window", "search", "test", "group", "output" or "part".
    title : str
    lines : list of str
        What is done there, and what was expected and measured.
    after : sequence of int
        Places of the nodes whose rows it takes.
    """

    kind: str
    title: str
    lines: list[str]
    after: Sequence[int] = ()


@dataclass(frozen=True)
class Explanation:
    """How a query over tables is run; ``str`` and notebooks show it.

    Parameters
    ----------
    text : str
        The query.
    sections : sequence of Section
    nodes : sequence of Node
        Each behind those whose rows it takes.
    findings : sequence of Finding
        What may be worth a change, each with a remedy.

    Examples
    --------
    >>> import penstock, pyarrow as pa
    >>> a = pa.table({"x": [1, 5]})
    >>> plan = penstock.explain("SELECT a.x FROM a JOIN b ON a.x < b.x", {"a": a, "b": a})
    >>> plan.findings
    ()
    """

    text: str
    sections: Sequence[Section]
    nodes: Sequence[Node]
    findings: Sequence[Finding]

    def __str__(self) -> str:
        parts = ("\n".join([one.title, *one.lines()]) for one in self.sections)
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        return plan_page.fragment(self)

    def html(self) -> str:
        """A whole page, which needs no other file and no network."""
        return plan_page.page(self)


class Notes:
    """Collects an explanation."""

    def __init__(self) -> None:
        self.sections: list[Section] = []
        self.nodes: list[Node] = []
        self.findings: list[Finding] = []

    def heading(self, title: str) -> None:
        """Begin a section."""
        self.sections.append(Section(title))

    def line(self, name: str, text: str) -> None:
        """Add a fact to the section."""
        self.facts([(name, text)])

    def facts(self, facts: Iterable[Fact]) -> None:
        """Add facts to the section."""
        self.sections[-1].facts.extend(facts)

    def node(self, kind: str, title: str, lines: Iterable[str], after: Sequence[int] = ()) -> int:
        """Add a node of the drawing; return its place."""
        self.nodes.append(Node(kind, title, [one for one in lines if one], after))
        return len(self.nodes) - 1

    def explanation(self, text: str) -> Explanation:
        """All that was collected; findings have a section, too."""
        if self.findings:
            self.heading("findings")
            self.facts((one.rule, str(one)) for one in self.findings)
        return Explanation(text, self.sections, self.nodes, tuple(self.findings))
