"""Proofs of the write master: its bursts, their words, and the answers."""

from __future__ import annotations

from types import ModuleType

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal

from penstock.hw.kernel.sizes import PAGE_BYTES
from tests.hw.formal.inside import Inside, Items
from tests.hw.formal.proof import Claim, Mutation, Proof
from tests.hw.formal.properties import AnyConst, AnySeq, Assert, Assume
from tests.hw.formal.streams import NarrowWords, drain, feed, moves

_SIZES = NarrowWords(word_bits=2, burst_words=2, write_words=4)

_LOG2 = _SIZES.word_log2
_PAGE_WORDS = PAGE_BYTES >> _LOG2
_BURSTS_OUT = 2
_BURSTS_AHEAD = 3

#: Bits of the counters of words and bursts; a search comes nowhere near their end.
_COUNT = 5


class WriterProof(Elaboratable):
    """A write master that is started while idle, before a memory that answers at any time."""

    def __init__(self, module: ModuleType) -> None:
        self.writer = module.Writer(_SIZES)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        writer, self.inside = self.writer, Inside.of(self.writer)
        m.submodules.writer = self.inside.fragment
        burst, word, done = writer.o_port.burst, writer.o_port.word, writer.o_port.done
        feed(m, writer.i)
        drain(m, burst)
        drain(m, word)
        m.d.comb += [
            writer.i_start.eq(AnySeq(1)),
            # Addresses in two pages: wider sums only keep the solver busy.
            writer.i_address.eq(Cat(Const(0, _LOG2), AnySeq(7))),
            writer.i_flush.eq(AnySeq(1)),
            done.valid.eq(AnySeq(1)),
            done.payload.error.eq(AnySeq(1)),
            Assume(~writer.i_start | (writer.o_idle & ~writer.i.valid)),
        ]
        #: Words taken, asked to be written, and written; bursts asked for, ended, and answered.
        self.taken, self.asked, self.written, self.bursts, self.ended, self.answers = (
            Signal(_COUNT, name=name)
            for name in ("taken", "asked", "written", "bursts", "ended", "answers")
        )
        self.words = burst.payload.length[:3] + 1
        m.d.comb += Assume(~done.valid | (self.answers != self.ended))
        m.d.sync += [
            self.taken.eq(self.taken + moves(writer.i)),
            self.asked.eq(self.asked + Mux(moves(burst), self.words, 0)),
            self.written.eq(self.written + moves(word)),
            self.bursts.eq(self.bursts + moves(burst)),
            self.ended.eq(self.ended + (moves(word) & word.payload.last)),
            self.answers.eq(self.answers + moves(done)),
        ]
        self._counts(m)
        self.check(m)
        return m

    def _counts(self, m: Module) -> None:
        """What the master knows of its words and bursts, and how it cuts the next burst."""
        inside, asks = self.inside, self.inside.ongoing("ASK")
        fresh, out, length = inside["fresh"], inside["out"], inside["length"]
        self.writes, number = inside["writes"], inside["number"]
        #: Words of the burst that is written which are not written yet.
        self.current = Mux(self.writes, number + 1, 0)
        self.queued, behind = inside["queued"], inside["behind"]
        #: Words of the burst behind it.
        self.behind = Mux(self.queued, behind + 1, 0)
        self.items = Items(m, inside.part("fifo"), _SIZES.write_words)
        lengths = Items(m, inside.part("lengths"), _BURSTS_AHEAD, buffered=False)
        self.ahead = lengths.level
        #: Words of each burst that waits for words.
        self.lengths = [Signal(range(_SIZES.burst_words + 1)) for _ in range(_BURSTS_AHEAD)]
        for place, words in enumerate(self.lengths):
            m.d.comb += words.eq(lengths[place] + 1)
            waits = self.ahead > place
            m.d.comb += Assert(~waits | ((words != 0) & (lengths[place] < _SIZES.burst_words)))
        waiting = sum(
            (Mux(self.ahead > place, words, 0) for place, words in enumerate(self.lengths)),
            self.current + self.behind,
        )
        m.d.comb += [
            Assert((self.taken - self.asked)[:_COUNT] == fresh),
            Assert((self.taken - self.written)[:_COUNT] == self.items.level),
            Assert((self.asked - self.written)[:_COUNT] == waiting[:_COUNT]),
            Assert((self.bursts - self.answers)[:_COUNT] == out),
            Assert((self.bursts - self.ended)[:_COUNT] == self.ahead + self.queued + self.writes),
            Assert((self.ahead + self.queued + self.writes <= out) & (out <= _BURSTS_OUT)),
            Assert(~self.writes | (number < _SIZES.burst_words)),
            Assert(~self.writes | (inside["last"] == (number == 0))),
            Assert(~self.queued | (behind < _SIZES.burst_words)),
            Assert(~asks | ((length != 0) & (length <= _SIZES.burst_words))),
            Assert(~asks | (length <= fresh)),
            Assert(~asks | ((self.ahead != _BURSTS_AHEAD) & (out != _BURSTS_OUT))),
        ]

    def check(self, m: Module) -> None:
        """Add the assertions."""
        raise NotImplementedError


class Requests(WriterProof):
    """Bursts cover ascending addresses, and are asked for when their words are there."""

    def check(self, m: Module) -> None:
        writer, burst = self.writer, self.writer.o_port.burst
        page, flushed = Signal(8), Signal()
        m.d.sync += page.eq(page + Mux(moves(burst), self.words, 0))
        with m.If(writer.i_start):
            m.d.sync += page.eq(writer.i_address[_LOG2:])
        with m.If(writer.i_flush):
            m.d.sync += flushed.eq(1)
        # Of a pair, Amaranth names the second only: the words to the next boundary.
        until, length = self.inside["$like"], self.inside["length"]
        m.d.comb += [
            Assert(self.inside["page"][:8] == page),
            Assert(~self.inside.ongoing("ASK") | (length == until) | (flushed & (length < until))),
        ]
        begin = burst.payload.address[_LOG2 : _LOG2 + 8]
        end_in_burst = begin % _SIZES.burst_words + self.words
        with m.If(burst.valid):
            m.d.comb += [
                Assert((begin == page) & ~burst.payload.address[:_LOG2].any()),
                Assert(~burst.payload.length[3:].any()),
                Assert(begin % _PAGE_WORDS + self.words <= _PAGE_WORDS),
                Assert(end_in_burst <= _SIZES.burst_words),
                Assert((end_in_burst == _SIZES.burst_words) | flushed),
                Assert(self.words <= (self.taken - self.asked)[:_COUNT]),
            ]
        m.d.comb += Assert((self.bursts - self.answers)[:_COUNT] <= _BURSTS_OUT)


class Words(WriterProof):
    """Words follow their request in order, the last of each burst marked."""

    def check(self, m: Module) -> None:
        writer, word = self.writer, self.writer.o_port.word
        # Any word and any burst, as the solver likes.
        number, which = Signal(_COUNT), Signal(_COUNT)
        m.d.comb += [number.eq(AnyConst(_COUNT)), which.eq(AnyConst(_COUNT))]
        kept, known, end = Signal.like(writer.i.payload), Signal(), Signal(_COUNT)
        with m.If(moves(writer.i) & (self.taken == number)):
            m.d.sync += kept.eq(writer.i.payload)
        with m.If(moves(writer.o_port.burst) & (self.bursts == which)):
            m.d.sync += [known.eq(1), end.eq(self.asked + self.words - 1)]
        with m.If(word.valid):
            m.d.comb += [
                Assert(self.written != self.asked),
                Assert((self.written != number) | (word.payload.data == kept)),
                # The last word of the burst is marked; no other word of it is.
                Assert(
                    ~known | (self.ended != which) | (word.payload.last == (self.written == end))
                ),
            ]
        place, ahead = Signal(_COUNT), Signal(_COUNT)
        m.d.comb += [
            place.eq(number - self.written),
            Assert((place >= self.items.level) | (self.items[place] == kept)),
            ahead.eq(which - self.ended),
        ]
        last = self.written + self.current - 1
        with m.If(self.writes & (ahead == 0)):
            m.d.comb += Assert(known & (end == last[:_COUNT]))
        last = last + self.behind
        with m.If(self.queued & (ahead == self.writes)):
            m.d.comb += Assert(known & (end == last[:_COUNT]))
        for index, words in enumerate(self.lengths):
            last = last + words
            with m.If((ahead == index + self.writes + self.queued) & (self.ahead > index)):
                m.d.comb += Assert(known & (end == last[:_COUNT]))


class Answers(WriterProof):
    """Idle means written and answered; an error is kept until the next start."""

    def check(self, m: Module) -> None:
        writer, done = self.writer, self.writer.o_port.done
        failed = Signal()
        with m.If(moves(done) & done.payload.error):
            m.d.sync += failed.eq(1)
        with m.If(writer.i_start):
            m.d.sync += failed.eq(0)
        m.d.comb += [
            Assert(done.ready),
            Assert(writer.o_error == failed),
            Assert(~writer.o_idle | (self.taken == self.written)),
            Assert(~writer.o_idle | (self.bursts == self.answers)),
            Assert(~writer.o_idle | self.inside.ongoing("GATHER")),
            Assert(~writer.o_idle | ((self.inside["fresh"] == 0) & (self.inside["out"] == 0))),
        ]


def _proof(name: str, build: type[WriterProof], depth: int, claims: tuple[Claim, ...]) -> Proof:
    return Proof(
        name=f"write master, {name}",
        module="penstock.hw.kernel.writer",
        build=build,
        size=f"bursts of {_SIZES.burst_words} words, room for {_SIZES.write_words}, "
        f"{_BURSTS_OUT} bursts without an answer",
        depth=depth,
        inductive=True,
        slow=True,
        claims=claims,
        constants={
            "BURSTS_OUT": _BURSTS_OUT,
            "BURSTS_AHEAD": _BURSTS_AHEAD,
        },
    )


PROOFS = (
    _proof(
        "requests",
        Requests,
        9,
        (
            Claim(
                "Bursts follow each other from the address of the start on; none crosses 4 KiB or "
                "a multiple of a burst, and without a flush each ends at one.",
                Mutation("m.d.sync += page.eq(page + length)", "m.d.sync += page.eq(page + 1)"),
            ),
            Claim(
                "A burst is asked for only when all its words are there.",
                Mutation("enough = (fresh >= until)", "enough = (fresh + 1 >= until)"),
            ),
            Claim(
                "No more bursts are without an answer than may be.",
                Mutation("lengths.w_rdy & (out != BURSTS_OUT)", "lengths.w_rdy"),
            ),
            Claim(
                "A request is held, unchanged, until memory takes it.",
                Mutation("burst.valid.eq(1)", "burst.valid.eq(~self.i_flush)"),
            ),
        ),
    ),
    _proof(
        "words",
        Words,
        9,
        (
            Claim(
                "Each word is written once, in order, after the request of its burst, and held "
                "until memory takes it.",
                Mutation("word.valid.eq(writes & fifo.r_rdy)", "word.valid.eq(fifo.r_rdy)"),
            ),
            Claim(
                "The last word of a burst is marked, and no other.",
                Mutation("last.eq(number == 1)", "last.eq(number == 0)"),
            ),
        ),
    ),
    _proof(
        "answers",
        Answers,
        9,
        (
            Claim(
                "It is idle only when all words were written and all bursts answered.",
                Mutation("(fresh == 0) & (out == 0)", "(fresh == 0)"),
            ),
            Claim(
                "It is not idle in the cycle after it took a word.",
                Mutation("done & ~comes", "done"),
            ),
            Claim(
                "An error of any answer is remembered until the next start.",
                Mutation(
                    "m.If(ends & answer.payload.error)",
                    "m.If(ends & (out == 1) & answer.payload.error)",
                ),
            ),
        ),
    ),
)
