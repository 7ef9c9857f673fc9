"""Proofs of the read master: its requests, and the words that it passes on."""

from __future__ import annotations

from types import ModuleType

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value

from penstock.hw.kernel.sizes import PAGE_BYTES
from tests.hw.formal.inside import Inside, Items
from tests.hw.formal.proof import Claim, Mutation, Proof
from tests.hw.formal.properties import AnyConst, AnySeq, Assert, Assume
from tests.hw.formal.streams import NarrowWords, drain, feed, moves

_SIZES = NarrowWords(word_bits=2, burst_words=2, read_words=4)

_IDENT = 1
_LOG2 = _SIZES.word_log2
_PAGE_WORDS = PAGE_BYTES >> _LOG2


class ReaderProof(Elaboratable):
    """A read master with any ranges, and a memory that answers at any time, also to others."""

    def __init__(self, module: ModuleType) -> None:
        self.reader = module.Reader(_SIZES, _IDENT)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        reader, self.inside = self.reader, Inside.of(self.reader)
        m.submodules.reader = self.inside.fragment
        word = reader.o_port.word
        # Ranges of up to seven words in two pages: wider sums only keep the solver busy.
        fetch = Cat(Const(0, _LOG2), AnySeq(7), Const(0, 57 - _LOG2), AnySeq(3))
        feed(m, reader.i_fetch, fetch)
        drain(m, reader.o)
        drain(m, reader.o_port.burst)
        m.d.comb += [
            word.valid.eq(AnySeq(1)),
            word.payload.as_value().eq(AnySeq(len(word.payload.as_value()))),
            reader.i_cancel.eq(AnySeq(1)),
        ]
        burst = reader.o_port.burst
        self.asked = Mux(moves(burst), burst.payload.length[:3] + 1, 0)
        self.ours = word.valid & (word.payload.id == _IDENT)
        # Memory gives no word that nobody asked for.
        self.owed = Signal(4)
        m.d.sync += self.owed.eq(self.owed + self.asked - self.ours)
        with m.If(self.owed == 0):
            m.d.comb += Assume(~self.ours)
        self._claims(m)
        self.check(m)
        return m

    def _claims(self, m: Module) -> None:
        """What the master knows of its words: on their way, and in the FIFO."""
        inside, depth = self.inside, _SIZES.read_words
        awaited, length = inside["awaited"], inside["length"]
        claimed = inside["$signal"]  # of a pair, Amaranth names the second only
        #: Words that were asked for in the cycle before, which are not counted yet.
        late = inside["asked"]
        self.claimed = claimed + late
        self.items = Items(m, inside.part("fifo"), depth)
        self.cut = inside.ongoing("ROOM") | inside.ongoing("ASK")
        m.d.comb += [
            Assert((late == 0) | inside.ongoing("CUT")),
            Assert(awaited + late == self.owed),
            Assert(claimed == awaited + self.items.level),
            Assert(self.claimed <= depth),
            Assert(~self.cut | ((length != 0) & (length <= _SIZES.burst_words))),
            Assert(~inside.ongoing("ASK") | (claimed + length <= depth)),
        ]

    def check(self, m: Module) -> None:
        """Add the assertions."""
        raise NotImplementedError


class Requests(ReaderProof):
    """Bursts cover the range, in order, and no more than there is room for."""

    def check(self, m: Module) -> None:
        reader, burst = self.reader, self.reader.o_port.burst
        page, left, held = Signal(8), Signal(4), Signal(4)
        taken = moves(reader.o)
        m.d.sync += held.eq(held + self.asked - taken)
        with m.If(moves(reader.i_fetch)):
            m.d.sync += [
                page.eq(reader.i_fetch.payload.address[_LOG2:]),
                left.eq(reader.i_fetch.payload.words),
            ]
        with m.Else():
            m.d.sync += [page.eq(page + self.asked), left.eq(left - self.asked)]

        begin: Value = burst.payload.address[_LOG2 : _LOG2 + 8]
        words = burst.payload.length[:3] + 1
        with m.If(burst.valid):
            m.d.comb += [
                Assert((begin == page) & ~burst.payload.address[:_LOG2].any()),
                Assert((words <= left) & ~burst.payload.length[3:].any()),
                Assert(burst.payload.id == _IDENT),
                Assert(begin % _PAGE_WORDS + words <= _PAGE_WORDS),
                Assert(begin % _SIZES.burst_words + words <= _SIZES.burst_words),
                Assert(held + words <= _SIZES.read_words),
            ]
        cancelled = Signal()
        with m.If(reader.i_cancel):
            m.d.sync += cancelled.eq(1)
        inside, idle = self.inside, self.inside.ongoing("IDLE")
        until = _SIZES.burst_words - page % _SIZES.burst_words
        m.d.comb += [
            Assert(held == self.claimed),
            Assert(idle | ((inside["page"][:8] == page) & (inside["left"] == left))),
            Assert(~self.cut | (inside["length"] == Mux(left < until, left, until))),
            Assert(~idle | cancelled | (left == 0)),
        ]
        m.d.comb += [
            Assert(reader.o_port.word.ready),
            Assert(~reader.i_fetch.ready | cancelled | (left == 0)),
            Assert(~reader.o_idle | (self.owed == 0)),
            Assert(~reader.o_idle | cancelled | (left == 0)),
            Assert(~(reader.i_cancel & moves(reader.i_fetch))),
        ]


class Words(ReaderProof):
    """What memory returns is passed on once, in order; an error is kept."""

    def check(self, m: Module) -> None:
        reader, word = self.reader, self.reader.o_port.word
        # The word with any number that the solver likes.
        number = Signal(4)
        m.d.comb += number.eq(AnyConst(4))
        returned, passed = Signal(4), Signal(4)
        kept, failed = Signal.like(word.payload.data), Signal()
        m.d.sync += [
            returned.eq(returned + self.ours),
            passed.eq(passed + moves(reader.o)),
        ]
        with m.If(self.ours & (returned == number)):
            m.d.sync += kept.eq(word.payload.data)
        with m.If(self.ours & word.payload.error):
            m.d.sync += failed.eq(1)
        m.d.comb += [
            Assert(~reader.o.valid | (passed != returned)),
            Assert(reader.o_error == failed),
        ]
        with m.If(reader.o.valid & (passed == number)):
            m.d.comb += Assert(reader.o.payload == kept)
        place = Signal(4)
        m.d.comb += [
            Assert((returned - passed)[:4] == self.items.level),
            place.eq(number - passed),
            Assert((place >= self.items.level) | (self.items[place] == kept)),
        ]


def _proof(name: str, build: type[ReaderProof], depth: int, claims: tuple[Claim, ...]) -> Proof:
    return Proof(
        name=f"read master, {name}",
        module="penstock.hw.kernel.reader",
        build=build,
        size=f"bursts of {_SIZES.burst_words} words, room for {_SIZES.read_words}",
        depth=depth,
        inductive=True,
        claims=claims,
    )


PROOFS = (
    _proof(
        "requests",
        Requests,
        10,
        (
            Claim(
                "The bursts of a range are the range, in order: none crosses 4 KiB or a multiple "
                "of a burst, and none goes beyond the range.",
                Mutation(
                    "until.eq(sizes.burst_words - page[: sizes.burst_words.bit_length() - 1])",
                    "until.eq(sizes.burst_words)",
                ),
            ),
            Claim(
                "A burst is asked for only if there is room for all words that are on their way "
                "and all that were not taken yet.",
                Mutation("claimed + length <= depth", "awaited + length <= depth"),
            ),
            Claim(
                "A request is held, unchanged, until memory takes it, also when the range is "
                "cancelled meanwhile.",
                Mutation(
                    "m.d.comb += burst.valid.eq(1)", "m.d.comb += burst.valid.eq(~self.i_cancel)"
                ),
            ),
            Claim(
                "It is idle only when no word is on its way and, unless it was cancelled, the "
                "range is done.",
                Mutation(
                    'machine.ongoing("IDLE") & (awaited == 0)',
                    'machine.ongoing("IDLE")',
                ),
            ),
        ),
    ),
    _proof(
        "words",
        Words,
        9,
        (
            Claim(
                "Each word that memory returns with the master's ID is passed on once, in order; "
                "words with another ID are not.",
                Mutation("word.valid & (word.payload.id == self.ident)", "word.valid"),
            ),
            Claim(
                "An error with a word of its own, and no other, is remembered.",
                Mutation("m.If(ours & word.payload.error)", "m.If(word.payload.error)"),
            ),
        ),
    ),
)
