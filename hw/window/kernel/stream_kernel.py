"""The window kernel with AXI4-Stream ports: no memory and no host in the loop."""

from __future__ import annotations

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...kernel.description import Description, StreamPort
from ...kernel.frame import Frame
from ..config import WindowConfig
from ..layout import Side, tuple_layout, word_layout
from .registers import STREAM_REGISTERS, register_map
from .stream_shell import STEPS, StreamShell
from .tables import table_words

#: Name of the module, and of the kernel.
STREAM_KERNEL = "penstock_window_stream"

#: Stream ports: tuples of A and of B, results.
INPUTS = {Side.A: "s_axis_a", Side.B: "s_axis_b"}
OUTPUT = "m_axis"


def data_bits(layout: data.StructLayout) -> int:
    """Width of TDATA for a payload: whole bytes."""
    return 8 * -(-layout.size // 8)


class StreamKernel(Frame):
    """A shell and its register file behind the ports that tools expect.

    TDATA has a tuple (:func:`penstock.hw.window.layout.tuple_layout`) or a word of results
    (:func:`penstock.hw.window.layout.word_layout`) from bit 0 on. There is no TLAST and no TKEEP:
    streams have no end, and each transfer is whole.

    Parameters
    ----------
    config : WindowConfig
        The build.

    Members
    -------
    s_axis_a_..., s_axis_b_..., m_axis_... : AXI4-Stream
        TDATA, TVALID, TREADY. Others are those of :class:`penstock.hw.kernel.frame.Frame`.
    """

    def __init__(self, config: WindowConfig) -> None:
        self.config = config
        members: dict[str, wiring.Member] = {}
        for side, name in INPUTS.items():
            members |= {
                f"{name}_TDATA": In(data_bits(tuple_layout(config, side))),
                f"{name}_TVALID": In(1),
                f"{name}_TREADY": Out(1),
            }
        members |= {
            f"{OUTPUT}_TDATA": Out(data_bits(word_layout(config))),
            f"{OUTPUT}_TVALID": Out(1),
            f"{OUTPUT}_TREADY": In(1),
        }
        super().__init__(register_map(config, STREAM_REGISTERS), members)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shell = StreamShell(self.config)
        registers = self.frame(m, shell)
        m.d.comb += registers.status("state").eq(shell.o_state)
        for name in STEPS:
            m.d.comb += registers.status(name).eq(getattr(shell, f"o_{name}"))
        for side, name in INPUTS.items():
            port = shell.i_a if side is Side.A else shell.i_b
            payload: Value = Value.cast(port.payload)
            m.d.comb += [
                payload.eq(self._port(name, "TDATA")[: len(payload)]),
                port.valid.eq(self._port(name, "TVALID")),
                self._port(name, "TREADY").eq(port.ready),
            ]
        m.d.comb += [
            self._port(OUTPUT, "TDATA").eq(Value.cast(shell.o.payload)),
            self._port(OUTPUT, "TVALID").eq(shell.o.valid),
            shell.o.ready.eq(self._port(OUTPUT, "TREADY")),
        ]
        return m

    def _port(self, name: str, signal: str) -> Signal:
        return getattr(self, f"{name}_{signal}")


def describe_stream(config: WindowConfig) -> Description:
    """The description of a build."""
    inputs = {
        name: StreamPort(
            f"tuples of side {side.name}",
            data_bits(tuple_layout(config, side)),
            True,
            _fields(tuple_layout(config, side)),
        )
        for side, name in INPUTS.items()
    }
    word = word_layout(config)
    output = StreamPort("results", data_bits(word), False, _fields(word))
    return Description(
        kernel=STREAM_KERNEL,
        library="window",
        prefix="PENSTOCK_WINDOW_STREAM",
        registers=register_map(config, STREAM_REGISTERS),
        streams={**inputs, OUTPUT: output},
        geometry={
            "depth": config.depth,
            "banks": config.banks,
            "tests": config.tests,
            "key_bits": config.key_bits,
            "time_bits": config.time_bits,
            "payload_a_bits": config.payload_a_bits,
            "payload_b_bits": config.payload_b_bits,
            "outputs": config.outputs,
            "parallel": config.parallel,
            "table_words": table_words(config),
        },
    )


def _fields(layout: data.StructLayout) -> dict[str, int]:
    """Widths of a layout's fields, from bit 0 on."""
    return {str(name): field.width for name, field in layout}
