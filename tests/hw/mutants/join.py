"""Mutants of the pipeline."""

from .mutant import Mutant, mutants

MUTANTS: list[Mutant] = [
    *mutants(
        "join.block",
        "join/test_pipeline.py",
        (
            "fifo.r_level <= self.config.spare_records",
            "fifo.r_level <= self.config.spare_records + 1",
            "the head stops a cycle too late for a block's FIFO",
            "join/test_pipeline.py",
        ),
        (
            "self.i_back.room & (",
            "(",
            "only the first block's room counts",
            "join/test_pipeline.py",
        ),
        (
            "self.i_back.quiet & (",
            "(",
            "only the first block's records are waited for",
            "join/test_pipeline.py",
        ),
        (
            "(kind == Kind.CLEAR) & lap",
            "kind == Kind.CLEAR",
            "ordinals restart with each pass",
            "join/test_pipeline.py",
        ),
        (
            "Cat(mask, unit.hit)",
            "Cat(unit.hit, mask)",
            "the bits of a mask are in the wrong order",
            "join/test_pipeline.py",
        ),
        (
            "mask.any() & ~folds",
            "mask.any()",
            "a task that folds writes records",
            "join/test_pipeline.py",
        ),
        (
            "(self.config.test_cycles + 1)",
            "(self.config.test_cycles)",
            "ordinals are a cycle ahead of their masks",
            "join/test_pipeline.py",
        ),
    ),
    *mutants(
        "join.unit",
        "join/test_unit.py",
        (
            "m.If(self.active & (flit.lap != phase))",
            "m.If(flit.lap != phase)",
            "a unit without a tuple takes a retirement",
            "join/test_unit.py",
        ),
        (
            "[phase.eq(~phase), self.active.eq(1)]",
            "[self.active.eq(1)]",
            "a unit takes the next lap's tuple too early",
            "join/test_unit.py",
        ),
        (
            "[phase.eq(0), self.active.eq(0)]",
            "[self.active.eq(0)]",
            "a CLEAR leaves the lap",
            "join/test_unit.py",
        ),
        (
            "[self.held.eq(0), self.active.eq(0)]",
            "[self.held.eq(0)]",
            "a unit goes on with a tuple whose value was collected",
            "join/test_unit.py",
        ),
        (
            "self.o.lap.eq(phase)",
            "self.o.lap.eq(flit.lap)",
            "a value is overwritten by a later unit",
            "join/test_unit.py",
        ),
        (
            "fold.clear.eq(loaded)",
            "fold.clear.eq(0)",
            "a new tuple goes on from the old one's value",
            "join/test_unit.py",
        ),
        (
            "self.active & (flit.kind == Kind.WINDOW)",
            "flit.kind == Kind.WINDOW",
            "a unit without a tuple gives matches",
            "join/test_unit.py",
        ),
        (
            "self.hit.eq(test.o)",
            "self.hit.eq(test.o & ~self.phase)",
            "matches of odd laps are lost",
            "join/test_unit.py",
        ),
    ),
    *mutants(
        "join.band",
        "join/test_pipeline.py",
        (
            "compare(self.keys[d], high[d])",
            "~compare(high[d], self.keys[d])",
            "the high bound does not belong to the band",
            "join/test_pipeline.py",
        ),
        (
            "live.eq(self.valid)",
            "live.eq(1)",
            "keys that do not count give matches",
            "join/test_pipeline.py",
        ),
    ),
    *mutants(
        "join.fold",
        "join/test_fold.py",
        (
            "~at_most(m, kept, self.operand)",
            "at_most(m, self.operand, kept)",
            "of equal values the last one is kept",
            "join/test_fold.py",
        ),
        ("~self.o.found | ", "", "the first match is not kept", "join/test_fold.py"),
        (
            "m.d.sync += tested.eq(0)",
            "m.d.sync += tested.eq(1)",
            "positions count from 1",
            "join/test_fold.py",
        ),
        (
            "self.o.found.eq(0)",
            "self.o.found.eq(1)",
            "nothing found counts as a match",
            "join/test_fold.py",
        ),
    ),
    *mutants(
        "join.occupancy",
        "join/test_pipeline.py",
        (
            "self.lap.eq(~self.lap)",
            "self.lap.eq(self.lap)",
            "tuples of the second lap go to the first one's units",
            "join/test_pipeline.py",
        ),
        (
            "back.collect & (self._recent == 0)",
            "back.collect",
            "a value is collected before its last match is in it",
            "join/test_pipeline.py",
        ),
        (
            "(self._occupied == config.units)",
            "(self._occupied == config.units + 1)",
            "a unit is loaded again before its value was collected",
            "join/test_pipeline.py",
        ),
        (
            "- line[-1]",
            "- line[0]",
            "a unit is loaded before its last window tuple has settled",
            "join/test_pipeline.py",
        ),
    ),
    *mutants(
        "join.outlet",
        "join/test_pipeline.py",
        (
            "fifo.r_level <= self.config.spare_records",
            "fifo.r_level <= self.config.spare_records + 1",
            "values are collected without room for all on their way",
            "join/test_pipeline.py",
        ),
    ),
    *mutants(
        "join.config",
        "join/test_pipeline.py",
        (
            "+ self.test_cycles + block + 4",
            "+ self.test_cycles + block + 3",
            "a block's FIFO has a place too few",
            "join/test_pipeline.py",
        ),
        (
            "hold - 2",
            "hold - 3",
            "a unit is loaded again while its old keys are in use",
            "join/test_pipeline.py",
        ),
        (
            "return self.reserve(self.blocks - 1) + self.blocks",
            "return self.blocks",
            "a task is reported before its last records are in the FIFOs",
            "join/test_pipeline.py",
        ),
        (
            "self.units + self.blocks + 2",
            "self.units + self.blocks + 1",
            "the outlet has a place too few",
            "join/test_pipeline.py",
        ),
    ),
    *mutants(
        "join.modes",
        "tests/sim/test_aggregates.py",
        (
            "_any_of(code, {Mode.MAX})",
            "_any_of(code, {Mode.MIN})",
            "MIN and MAX are exchanged",
            "tests/sim/test_aggregates.py",
        ),
    ),
    *mutants(
        "join.pipeline",
        "join/test_pipeline.py",
        (
            "self.o.ready | ~self.o.valid",
            "self.o.ready | self.o.valid",
            "a record that stalls is overwritten",
            "join/test_pipeline.py",
        ),
        (
            "chain.i_quiet.eq(~collector.o.valid)",
            "chain.i_quiet.eq(1)",
            "a task is reported before its last record was taken",
            "join/test_pipeline.py",
        ),
    ),
    *mutants(
        "join.head",
        "join/test_head.py",
        (
            "report.complete.eq(loaded - (",
            "report.complete.eq(loaded - 0 * (",
            "tuples that a pause cut count as complete",
            "join/test_head.py",
        ),
        (
            "m.d.sync += report.complete.eq(loaded)",
            "pass",
            "tuples that end with the task count as not complete",
            "join/test_head.py",
        ),
    ),
]
