"""Mutants of the window join."""

from .mutant import Mutant, mutants

MUTANTS: list[Mutant] = [
    *mutants(
        "window.queue",
        "window/test_operator.py",
        (
            "(self.push & ~full)",
            "self.push",
            "a full queue counts beyond its depth",
            "window/test_operator.py",
        ),
        (
            "Mux(self.rows < new_filled, self.rows, new_filled)",
            "new_filled",
            "the size of a window is ignored",
            "window/test_operator.py",
        ),
        (
            "begin.eq(new_end - count)",
            "begin.eq(end - count)",
            "a scan begins a slot early",
            "window/test_operator.py",
        ),
        (
            "return wraps | (high >= bank)",
            "return high >= bank",
            "the last row of a scan that wraps is cut",
            "window/test_operator.py",
        ),
        ("left <= banks", "left < banks", "a scan reads a row too many", "window/test_operator.py"),
        (
            "begun & not_over",
            "begun",
            "tuples beyond the window are matched",
            "window/test_operator.py",
        ),
    ),
    *mutants(
        "window.input",
        "window/test_operator.py",
        (
            "i.valid & self.shed & ~free",
            "i.valid & ~free",
            "tuples that wait count as dropped",
            "window/test_operator.py",
        ),
        (
            "i.ready.eq(free | self.shed)",
            "i.ready.eq(1)",
            "tuples are lost without shedding",
            "window/test_operator.py",
        ),
        (
            "m.Elif(stores[0])",
            "m.If(stores[0])",
            "of two tuples of one cycle that of B is first",
            "window/test_operator.py",
        ),
    ),
    *mutants(
        "window.match",
        "window/test_operator.py",
        (
            "Mux(early < 0, 0, early)",
            "early",
            "times before 0 wrap around",
            "window/test_operator.py",
        ),
        (
            "Mux(late[bits], -1, late)",
            "late",
            "times beyond the last one wrap around",
            "window/test_operator.py",
        ),
        (
            "self.before if is_a else self.after",
            "self.after if is_a else self.before",
            "the bounds of time are those of the other side",
            "window/test_operator.py",
        ),
        (
            "second & unit.o_open",
            "second",
            "the second tuple takes a slot that is still to be read",
            "window/test_operator.py",
        ),
        (
            "self.rows_b if is_a else self.rows_a",
            "self.rows_a if is_a else self.rows_b",
            "the sizes of the windows are exchanged",
            "window/test_operator.py",
        ),
        (
            "m.If(queue.o_left & self.stop)",
            "m.If(0)",
            "a match unit goes on without room for its results",
            "window/test_operator.py",
        ),
    ),
    *mutants(
        "window.output",
        "window/test_operator.py",
        (
            "self.config.records - IN_FLIGHT",
            "self.config.records",
            "room is reported without what is on its way",
            "window/test_operator.py",
        ),
        (
            "rest == lowest",
            "lowest.any()",
            "a group gives its first result only",
            "window/test_operator.py",
        ),
        (
            "m.d.sync += sent.eq(0)",
            "m.d.sync += sent.eq(1)",
            "a group's first result is left out",
            "window/test_operator.py",
        ),
    ),
    *mutants(
        "window.operator",
        "window/test_operator.py",
        (
            "& match.o_idle & output.o_idle",
            "& match.o_idle",
            "the operator is idle while results wait",
            "window/test_operator.py",
        ),
        (
            "counter.eq(counter + 1)",
            "counter.eq(counter + 2)",
            "tuples are counted twice",
            "window/test_operator.py",
        ),
    ),
    *mutants(
        "window.pair",
        "window/test_operator.py",
        (
            "at_most(m, self.time, self.latest)",
            "~at_most(m, self.latest, self.time)",
            "the latest time does not count",
            "window/test_operator.py",
        ),
    ),
    *mutants(
        "window.cascade",
        "window/test_cascade.py",
        (
            "first.o_idle & second.o_idle",
            "second.o_idle",
            "a cascade is idle while the first operator works",
            "window/test_cascade.py",
        ),
        (
            "second.shed.eq(self.shed[1])",
            "second.shed.eq(self.shed[0])",
            "the second operator has the first one's policy",
            "window/test_cascade.py",
        ),
    ),
]
