"""The output layer: groups of results become single results, and both sides share a port."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..kernel.skid import Skid
from .config import WindowConfig
from .layout import RecordPort, Side, record_layout, record_port, result_layout, word_layout


class Picker(wiring.Component):
    """Gives the places of a mask's bits, the lowest first, one per cycle.

    A mask that is taken gives its first place in the next cycle. It must not be empty.

    Parameters
    ----------
    bits : int
        Width of a mask.

    Members
    -------
    i, o : In(stream), Out(stream)
        Masks, and places.
    o_ends : Out(1)
        The mask's last place is taken in this cycle.
    """

    i: stream.Interface
    o: stream.Interface
    o_ends: Signal

    def __init__(self, bits: int) -> None:
        super().__init__(
            {
                "i": In(stream.Signature(bits)),
                "o": Out(stream.Signature(range(bits))),
                "o_ends": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Bits behind the one on offer, and whether there are some.
        rest = Signal.like(self.i.payload)
        more = Signal()
        # The choice comes last: before the trees it would lengthen their paths.
        kept, new = _lowest(rest), _lowest(self.i.payload)
        _, place, others, several = (Mux(more, *pair) for pair in zip(kept, new, strict=True))
        m.d.comb += [
            self.o_ends.eq(self.o.valid & self.o.ready & ~more),
            self.i.ready.eq(~self.o.valid | self.o_ends),
        ]
        with m.If(self.o.ready | ~self.o.valid):
            m.d.sync += [
                self.o.valid.eq(more | self.i.valid),
                self.o.payload.eq(place),
                rest.eq(others),
                more.eq((more | self.i.valid) & several),
            ]
        return m


def _lowest(bits: Value) -> tuple[Value, Value, Value, Value]:
    """Whether a bit is set, the place of the lowest one, all others, and whether there are some.

    A tree of halves: a subtraction, or one bit after the other, would be a long path.
    """
    if len(bits) == 1:
        return bits, Const(0, 0), Const(0, 1), Const(0, 1)
    half = 1 << (len(bits) - 1).bit_length() - 1
    low, high = bits[:half], bits[half:]
    (some, place, others, several), upper = _lowest(low), _lowest(high)
    return (
        some | upper[0],
        Cat(Mux(some, place, upper[1]), ~some),
        Cat(others, Mux(some, high, upper[2])),
        several | upper[3] | some & upper[0],
    )


class Groups(wiring.Component):
    """Holds groups of results of one side and gives them in chunks, those without results left out.

    Parameters
    ----------
    config : WindowConfig
        The build.
    side : Side
        Whose tuples were matched.

    Members
    -------
    i : In
        Groups; one without results is forgotten. It says stop when there is no room for more than
        may be on their way: ``config.in_flight``, that of this cycle included.
    o : Out(stream)
        Results of ``config.chunk`` neighbouring banks; the lowest banks first.
    o_idle : Out(1)
        No group is here.
    """

    i: RecordPort
    o: stream.Interface
    o_idle: Signal

    def __init__(self, config: WindowConfig, side: Side) -> None:
        self.config = config
        self.layout = record_layout(config, side)
        super().__init__(
            {
                "i": In(record_port(config, side)),
                "o": Out(stream.Signature(record_layout(config, side, config.chunk))),
                "o_idle": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        chunk, chunks = config.chunk, config.banks // config.chunk
        bits = (config.records - 1).bit_length()
        m.submodules.records = groups = Memory(shape=self.layout, depth=1 << bits, init=[])
        m.submodules.parts = parts = Memory(shape=chunks, depth=1 << bits, init=[])
        m.submodules.picker = picker = Picker(chunks)
        # The next slots to write and to read, and the slot of the group that is given.
        put = Signal(bits)
        get = Signal(bits)
        slot = Signal(bits)
        some = Cat(self.i.record.mask.word_select(k, chunk).any() for k in range(chunks))
        write_group, write_parts = groups.write_port(), parts.write_port()
        for port, value in ((write_group, self.i.record), (write_parts, some)):
            m.d.comb += [port.addr.eq(put), port.data.eq(value), port.en.eq(self.i.write)]
        read_group, read_parts = groups.read_port(domain="comb"), parts.read_port(domain="comb")
        m.d.comb += [read_group.addr.eq(slot), read_parts.addr.eq(get)]

        keeps = self.i.write & some.any()
        with m.If(keeps):
            m.d.sync += put.eq(put + 1)
        m.d.comb += [
            picker.i.payload.eq(read_parts.data),
            picker.i.valid.eq(put != get),
            picker.o.ready.eq(self.o.ready),
            self.o.valid.eq(picker.o.valid),
            self.o_idle.eq(~picker.o.valid & (put == get)),
        ]
        with m.If(picker.i.valid & picker.i.ready):
            m.d.sync += [slot.eq(get), get.eq(get + 1)]

        group, place = read_group.data, picker.o.payload
        window = group.window.as_value()
        width = len(window) // chunks
        m.d.comb += [
            self.o.payload.mask.eq(
                Array(group.mask[k * chunk : (k + 1) * chunk] for k in range(chunks))[place]
            ),
            self.o.payload.probe.eq(group.probe),
            self.o.payload.window.as_value().eq(
                Array(window[k * width : (k + 1) * width] for k in range(chunks))[place]
            ),
        ]

        level = Signal(range(config.records + 1))
        came = Signal()
        went = Signal()
        m.d.sync += [
            came.eq(keeps),
            went.eq(picker.o_ends),
            level.eq(level + came - went),
            self.i.stop.eq(level > config.records - config.in_flight),
        ]
        return m


class Expander(wiring.Component):
    """Gives the results of one side one by one, one per cycle, the lowest bank of a group first.

    Parameters
    ----------
    config : WindowConfig
        The build.
    side : Side
        Whose tuples were matched.

    Members
    -------
    i : In
        See :class:`Groups`.
    o : Out(stream)
        Results.
    o_idle : Out(1)
        No result is here.
    """

    i: RecordPort
    o: stream.Interface
    o_idle: Signal

    def __init__(self, config: WindowConfig, side: Side) -> None:
        self.config = config
        self.side = side
        super().__init__(
            {
                "i": In(record_port(config, side)),
                "o": Out(stream.Signature(result_layout(config))),
                "o_idle": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        layout = record_layout(self.config, self.side, self.config.chunk)
        m.submodules.groups = groups = Groups(self.config, self.side)
        m.submodules.stage = stage = Skid(layout)
        wiring.connect(m, wiring.flipped(self.i), groups.i)
        wiring.connect(m, groups.o, stage.i)
        probe = Signal(layout["probe"].shape, reset_less=True)
        window = Signal(layout["window"].shape, reset_less=True)
        m.submodules.picker = picker = Picker(self.config.chunk)
        m.d.comb += [
            picker.i.payload.eq(stage.o.payload.mask),
            picker.i.valid.eq(stage.o.valid),
            stage.o.ready.eq(picker.i.ready),
            picker.o.ready.eq(self.o.ready),
            self.o.valid.eq(picker.o.valid),
            self.o_idle.eq(groups.o_idle & ~stage.o.valid & ~self.o.valid),
        ]
        with m.If(picker.i.ready):
            m.d.sync += [probe.eq(stage.o.payload.probe), window.eq(stage.o.payload.window)]
        own, other = ("a", "b") if self.side is Side.A else ("b", "a")
        m.d.comb += [
            self.o.payload[own].eq(probe),
            self.o.payload[other].eq(window[picker.o.payload]),
            self.o.payload.later.eq(self.side),
        ]
        return m


class OutputLayer(wiring.Component):
    """Results of both match units, through one port.

    With ``config.outputs`` 1 one result per cycle, the sides in turn where both have some; with 2
    one of each side. A word stays while the port stalls.

    Parameters
    ----------
    config : WindowConfig
        The build.

    Members
    -------
    i_a, i_b : In
        See :class:`Groups`.
    o : Out(stream)
        Results.
    o_idle : Out(1)
        No result waits.
    """

    i_a: RecordPort
    i_b: RecordPort
    o: stream.Interface
    o_idle: Signal

    def __init__(self, config: WindowConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i_a": In(record_port(config, Side.A)),
                "i_b": In(record_port(config, Side.B)),
                "o": Out(stream.Signature(word_layout(config))),
                "o_idle": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.expand_a = a = Expander(self.config, Side.A)
        m.submodules.expand_b = b = Expander(self.config, Side.B)
        m.submodules.stage = stage = Skid(word_layout(self.config))
        wiring.connect(m, wiring.flipped(self.i_a), a.i)
        wiring.connect(m, wiring.flipped(self.i_b), b.i)
        wiring.connect(m, stage.o, wiring.flipped(self.o))
        m.d.comb += [
            self.o_idle.eq(a.o_idle & b.o_idle & ~self.o.valid),
            stage.i.valid.eq(a.o.valid | b.o.valid),
        ]
        if self.config.outputs == 1:
            self._take_one(m, stage.i, a.o, b.o)
        else:
            self._take_both(m, stage.i, a.o, b.o)
        return m

    def _take_one(
        self, m: Module, word: stream.Interface, a: stream.Interface, b: stream.Interface
    ) -> None:
        latest_is_a = Signal()
        takes_a = a.valid & ~(b.valid & latest_is_a)
        m.d.comb += [
            a.ready.eq(takes_a & word.ready),
            b.ready.eq(~takes_a & word.ready),
            word.payload.present.eq(1),
            word.payload.results[0].eq(Mux(takes_a, a.payload.as_value(), b.payload.as_value())),
        ]
        with m.If(word.valid & word.ready):
            m.d.sync += latest_is_a.eq(takes_a)

    def _take_both(
        self, m: Module, word: stream.Interface, a: stream.Interface, b: stream.Interface
    ) -> None:
        m.d.comb += [
            a.ready.eq(word.ready),
            b.ready.eq(word.ready),
            word.payload.present.eq(Cat(a.valid, b.valid)),
        ]
        for place, results in zip(word.payload.results, (a, b), strict=True):
            m.d.comb += place.eq(results.payload)
