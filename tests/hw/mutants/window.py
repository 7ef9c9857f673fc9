"""Mutants of the window join."""

from .mutant import Mutant, mutants

MUTANTS: list[Mutant] = [
    *mutants(
        "window.queue",
        "window/test_operator.py",
        (
            "m.d.sync += full.eq(1)",
            "m.d.sync += full.eq(0)",
            "a full queue counts as one that is filled anew",
            "test_a_full_queue_that_is_searched_further",
        ),
        (
            "room.eq(Mux(fewer, 0, size - filled))",
            "room.eq(self.config.depth - filled)",
            "the size of a window is ignored",
            "test_cycles_per_tuple[1-6-8]",
        ),
        (
            "self._begin.eq(self._end - self._count)",
            "self._begin.eq(self._end - self._count - 1)",
            "a scan begins a slot early",
            "test_random_schedules[two results per cycle-True-0]",
        ),
        (
            "return wraps | (high >= bank)",
            "return high >= bank",
            "the last row of a scan that wraps is cut",
            "test_random_schedules[two banks-True-0]",
        ),
        (
            "begun & not_over",
            "begun",
            "tuples beyond the window are matched",
            "test_random_schedules[four banks, short output-True-0]",
        ),
    ),
    *mutants(
        "window.operator",
        "window/test_operator.py",
        (
            "i.valid & self.shed & ~free",
            "i.valid & ~free",
            "tuples that wait count as dropped",
            "test_cycles_per_tuple[1-6-8]",
        ),
        (
            "i.ready.eq(free | self.shed)",
            "i.ready.eq(1)",
            "tuples are lost without shedding",
            "test_cycles_per_tuple[1-6-8]",
        ),
        (
            "m.Elif(stores[0])",
            "m.If(stores[0])",
            "of two tuples of one cycle that of B is first",
            "test_random_schedules[one bank-False-0]",
        ),
    ),
    *mutants(
        "window.match",
        "window/test_operator.py",
        (
            "Mux(early < 0, 0, early)",
            "early",
            "times before 0 wrap around",
            "test_random_schedules[times-True-0]",
        ),
        (
            "Mux(late[bits], -1, late)",
            "late",
            "times beyond the last one wrap around",
            "test_random_schedules[times-True-0]",
        ),
        (
            "self.before if is_a else self.after",
            "self.after if is_a else self.before",
            "the bounds of time are those of the other side",
            "test_random_schedules[times-True-0]",
        ),
        (
            "second & unit.o_open",
            "second",
            "the second tuple takes a slot that is still to be read",
            "test_random_schedules[two banks-True-0]",
        ),
        (
            "self.rows_b if is_a else self.rows_a",
            "self.rows_a if is_a else self.rows_b",
            "the sizes of the windows are exchanged",
            "test_windows_that_change",
        ),
        (
            "m.If(queue.o_left & self.o.stop)",
            "m.If(0)",
            "a match unit goes on without room for its results",
            "test_random_schedules[two banks-True-0]",
        ),
    ),
    *mutants(
        "window.output",
        "window/test_operator.py",
        (
            "config.records - config.in_flight",
            "config.records",
            "room is reported without what is on its way",
            "test_random_schedules[two banks-True-0]",
        ),
        (
            "more.eq((more | self.i.valid) & several)",
            "more.eq(0)",
            "a group gives its first result only",
            "test_random_schedules[two banks-True-0]",
        ),
        (
            "Mux(some, high, upper[2])",
            "upper[2]",
            "results in the upper half of a group are left out",
            "test_random_schedules[four banks, short output-True-0]",
        ),
    ),
    *mutants(
        "window.operator",
        "window/test_operator.py",
        (
            "match.o_idle & output.o_idle",
            "match.o_idle",
            "the operator is idle while results wait",
            "test_two_tuples_of_one_instant[Side.B]",
        ),
        (
            "counter.eq(counter + 1)",
            "counter.eq(counter + 2)",
            "tuples are counted twice",
            "test_random_schedules[two results per cycle-True-0]",
        ),
    ),
    *mutants(
        "window.pair",
        "window/test_operator.py",
        (
            "at_most(m, self.time, self.latest)",
            "~at_most(m, self.latest, self.time)",
            "the latest time does not count",
            "test_random_schedules[times-False-0]",
        ),
    ),
    *mutants(
        "window.cascade",
        "window/test_cascade.py",
        (
            "first.o_idle & second.o_idle",
            "first.o_idle",
            "a cascade is idle while the second operator works",
            "test_three_streams[2-2]",
        ),
        (
            "first.o_idle & second.o_idle",
            "second.o_idle",
            "a cascade is idle while the first operator works",
            "test_three_streams[2-2]",
        ),
        (
            "second.shed.eq(self.shed[1])",
            "second.shed.eq(self.shed[0])",
            "the second operator has the first one's policy",
            "test_three_streams[0-1]",
        ),
    ),
]
