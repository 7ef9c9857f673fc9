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
            "test_the_reserve_is_exact",
        ),
        (
            "self.i_back.room & (",
            "(",
            "only the first block's room counts",
            "test_random_tasks_with_gaps_and_stalls[5-2-0]",
        ),
        (
            "self.i_back.quiet & (",
            "(",
            "only the first block's records are waited for",
            "test_a_report_waits_for_the_last_block[chain]",
        ),
        (
            "(self.o.kind == Kind.CLEAR) & self.o.lap",
            "self.o.kind == Kind.CLEAR",
            "ordinals restart with each pass",
            "test_truth_tables[3]",
        ),
        (
            "Cat(mask, unit.hit)",
            "Cat(unit.hit, mask)",
            "the bits of a mask are in the wrong order",
            "test_stream_keys_stay_until_they_are_used[3333]",
        ),
        (
            "(self.config.test_cycles + 1)",
            "(self.config.test_cycles)",
            "ordinals are a cycle ahead of their masks",
            "test_stream_keys_stay_until_they_are_used[3333]",
        ),
    ),
    *mutants(
        "join.unit",
        "join/test_unit.py",
        (
            "m.If(self.active & (flit.lap != phase))",
            "m.If(flit.lap != phase)",
            "a unit without a tuple takes a retirement",
            "test_random_flits[1-1]",
        ),
        (
            "[phase.eq(~phase), self.active.eq(1)]",
            "[self.active.eq(1)]",
            "a unit takes the next lap's tuple too early",
            "test_random_flits[2-1]",
        ),
        (
            "[phase.eq(0), self.active.eq(0)]",
            "[self.active.eq(0)]",
            "a CLEAR leaves the lap",
            "test_random_flits[2-1]",
        ),
        (
            "[self.held.eq(0), self.active.eq(0)]",
            "[self.held.eq(0)]",
            "a unit goes on with a tuple whose value was collected",
            "formal/test_proofs.py::test_claims_hold[unit with aggregates]",
        ),
        (
            "self.o.lap.eq(phase)",
            "self.o.lap.eq(flit.lap)",
            "a value is overwritten by a later unit",
            "test_random_ranges_are_folded[False-2]",
        ),
        (
            "fold.clear.eq(loaded)",
            "fold.clear.eq(0)",
            "a new tuple goes on from the old one's value",
            "test_random_ranges_are_folded[False-2]",
        ),
        (
            "if times else self.active)",
            "if times else 1)",
            "a unit without a tuple gives matches",
            "test_random_flits[1-1]",
        ),
        (
            "self.hit.eq(test.o)",
            "self.hit.eq(test.o & ~self.phase)",
            "matches of odd laps are lost",
            "test_random_flits[2-1]",
        ),
    ),
    *mutants(
        "join.band",
        "join/test_pipeline.py",
        (
            "compare(self.keys[d], high[d])",
            "~compare(high[d], self.keys[d])",
            "the high bound does not belong to the band",
            "test_shapes_of_ranges[ties]",
        ),
        (
            "live.eq(self.valid)",
            "live.eq(1)",
            "keys that do not count give matches",
            "join/test_unit.py::test_random_flits[1-1]",
        ),
    ),
    *mutants(
        "join.fold",
        "join/test_fold.py",
        (
            "~at_most(m, kept, self.operand)",
            "at_most(m, self.operand, kept)",
            "of equal values the last one is kept",
            "test_random_matches[modes6-True]",
        ),
        ("~folded.found | ", "", "the first match is not kept", "test_random_matches[modes5-True]"),
        (
            "m.d.sync += tested.eq(0)",
            "m.d.sync += tested.eq(1)",
            "positions count from 1",
            "test_random_matches[modes6-True]",
        ),
        (
            "folded.found.eq(0)",
            "folded.found.eq(1)",
            "nothing found counts as a match",
            "test_random_matches[modes6-True]",
        ),
    ),
    *mutants(
        "join.occupancy",
        "join/test_pipeline.py",
        (
            "self.lap.eq(~self.lap)",
            "self.lap.eq(self.lap)",
            "tuples of the second lap go to the first one's units",
            "test_stream_keys_stay_until_they_are_used[3333]",
        ),
        (
            "back.collect & (recent == 0)",
            "back.collect",
            "a value is collected before its last match is in it",
            "tests/sim/test_aggregates.py::test_band_aggregates[count+exists+max+min+pairs+sum-1]",
        ),
    ),
    *mutants(
        "join.config",
        "join/test_pipeline.py",
        (
            "+ self.test_cycles + block + 4",
            "+ self.test_cycles + block + 3",
            "a block's FIFO has a place too few",
            "test_the_reserve_is_exact",
        ),
        (
            "max(self.schedule.hold - 2, 0)",
            "max(self.schedule.hold - 3, 0)",
            "a unit is loaded a cycle before its old stream keys were read",
            "test_stream_keys_stay_until_they_are_used[1000]",
        ),
    ),
    *mutants(
        "join.pipeline",
        "join/test_pipeline.py",
        (
            "self.o.ready | ~self.o.valid",
            "self.o.ready | self.o.valid",
            "a record that stalls is overwritten",
            "test_a_report_waits_for_the_last_block[pipeline]",
        ),
        (
            "chain.i_quiet.eq(~collector.o.valid)",
            "chain.i_quiet.eq(1)",
            "a task is reported before its last record was taken",
            "test_a_report_waits_for_the_last_block[pipeline]",
        ),
    ),
    *mutants(
        "join.head",
        "kernel/test_shell.py",
        (
            "report.complete.eq(loaded - kept)",
            "report.complete.eq(loaded)",
            "tuples that a pause cut count as complete",
            "test_a_task_out_of_room[0]",
        ),
        (
            "finish(0)",
            "finish(active.value)",
            "tuples that end with the task count as not complete",
            "join/test_head.py::test_random_tasks[0]",
        ),
        (
            "stops | Mux(due.load",
            "Mux(due.load",
            "the blocks take the CLEAR of a paused task for that of a pass",
            "join/test_head.py::test_a_halt_in_any_cycle",
        ),
    ),
]
