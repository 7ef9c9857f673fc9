"""All proofs, and the document that lists them."""

from __future__ import annotations

from tests.hw.formal import (
    aggregates,
    block,
    compare,
    fifo,
    head,
    lanes,
    ranges,
    reader,
    registers,
    skid,
    slots,
    unit,
    window_input,
    window_match,
    window_output,
    writer,
)
from tests.hw.formal.proof import Proof

PROOFS: tuple[Proof, ...] = (
    *unit.PROOFS,
    *compare.PROOFS,
    *block.PROOFS,
    *fifo.PROOFS,
    *head.PROOFS,
    *ranges.PROOFS,
    *aggregates.PROOFS,
    *registers.PROOFS,
    *reader.PROOFS,
    *writer.PROOFS,
    *lanes.PROOFS,
    *skid.PROOFS,
    *slots.PROOFS,
    *window_input.PROOFS,
    *window_match.PROOFS,
    *window_output.PROOFS,
)

_HEADER = """\
# Proofs

What `tests/hw/formal` proves of the hardware, with SymbiYosys and z3. Written by
`python -m tests.hw.formal`; a test compares this file with it. Every claim comes with a mutation
of the block's source; a test checks that the proof then finds a counterexample.

"For ever" is by induction over as many cycles as the depth says, "bounded" a search of that many
cycles from the initial state; below a bounded one stands what an induction would need. Sizes are
small, since the blocks are regular in theirs.
"""


def document() -> str:
    """The list of proofs, as Markdown."""
    parts = [_HEADER]
    for proof in PROOFS:
        scope = "for ever" if proof.inductive else "bounded"
        lines = [
            f"## {proof.name[0].upper()}{proof.name[1:]}\n",
            f"`{proof.module}`, {proof.size}; {scope}, depth {proof.depth}.\n",
            *(f"- {claim.sentence}" for claim in proof.claims),
        ]
        if proof.bounded_because:
            lines.append(f"\nNo induction: {proof.bounded_because}")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)
