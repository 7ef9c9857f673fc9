"""A mutant: the hardware with one place changed, and the test that notices."""

from __future__ import annotations

from dataclasses import dataclass

from tests.hw.formal.proof import Mutation


@dataclass(frozen=True)
class Mutant:
    """A mutation, what it breaks and what notices it.

    Parameters
    ----------
    module : str
        Module whose source is changed.
    mutation : Mutation
    breaks : str
        What no longer holds.
    test : str
        Node of pytest that must fail: the quickest one. A test or, as ``test_claims_hold[...]``, a
        proof.
    """

    module: str
    mutation: Mutation
    breaks: str
    test: str


def mutants(module: str, file: str, *rows: tuple[str, str, str, str]) -> list[Mutant]:
    """Mutants of one module.

    Parameters
    ----------
    module : str
        Its name below ``penstock.hw``.
    file : str
        Where the tests are, below ``tests/hw``.
    rows : tuple of str
        Old text, new text, what breaks, and the test. A test of another file is written with it.
    """
    return [
        Mutant(f"penstock.hw.{module}", Mutation(old, new), breaks, _node(file, test))
        for old, new, breaks, test in rows
    ]


def _node(file: str, test: str) -> str:
    path, _, name = test.rpartition("::")
    path = path or file
    return f"{path}::{name}" if path.startswith("tests/") else f"tests/hw/{path}::{name}"
