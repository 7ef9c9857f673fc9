"""The longest path of a design between registers, in nanoseconds, from its netlist and a table.

The netlist is Yosys' mapping to UltraScale+. Delays of its primitives are those that Xilinx
publishes for RapidWright's timing model (xcvu3p at speed grade -2, slow corner;
``timing/ultrascaleplus/intrasite_delay_terms.txt`` of the repository Xilinx/RapidWright), the
slowest pin of each. A net takes :data:`NET_NS`, since nothing is placed. So this ranks paths and
finds those that are too long; it does not replace the vendor's timing analysis.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from penstock.errors import DeviceError

from .cells import FAMILY
from .verilog import run_yosys

#: Nanoseconds of a net between slices: what routed nets of a few sinks take in the reports of
#: RapidWright's manual (0.1 to 0.5), not those of clocks, resets and die crossings.
NET_NS = 0.3
#: From a slice's carry output to the next slice's carry input, to a carry chain from the LUT
#: below it, from a LUT to its multiplexer, and to the flip-flop beside it.
_CARRY_NS, _SUM_NS, _MUX_NS, _BESIDE_NS = 0.026, 0.015, 0.025, 0.05
_LUT_NS, _WIDE_NS = 0.15, 0.077
#: Of a flip-flop: clock to output, and setup of data and of enable or reset.
_FF_NS, _FF_SETUP_NS, _FF_CONTROL_NS = 0.077, 0.025, 0.061
#: Of memory in LUTs: clock to output, setup.
_LUTRAM_NS, _LUTRAM_SETUP_NS = 0.312, 0.18
#: Of memory blocks: clock to output without and with an output register. Setup is assumed: the
#: model has none that depends on nothing but the pin.
_BRAM_NS, _BLOCK_SETUP_NS = (1.003, 0.229), 0.4
#: Of an UltraRAM, which Yosys infers without one.
_URAM_NS = 1.292
#: Of a DSP slice without pipeline registers, assumed.
_DSP_NS = 2.5


@dataclass(frozen=True)
class Step:
    """A cell on a path.

    Parameters
    ----------
    cell : str
        Type, such as LUT6.
    name : str
        Name in the design, with its parents'.
    at_ns : float
        When its output is there.
    """

    cell: str
    name: str
    at_ns: float


@dataclass(frozen=True)
class TimedPath:
    """A path from a register to a register.

    Parameters
    ----------
    steps : tuple of Step
        From the register or memory that it begins at.
    end : str
        Where it ends: cell and pin.
    ns : float
        Its delay, setup included.
    """

    steps: tuple[Step, ...]
    end: str
    ns: float

    @property
    def mhz(self) -> float:
        """The clock that it allows."""
        return 1e3 / self.ns

    @property
    def levels(self) -> int:
        """LUTs on it."""
        return sum(step.cell.startswith("LUT") for step in self.steps)

    def __str__(self) -> str:
        parts = []
        for cell, run in groupby(step.cell for step in self.steps):
            number = len(list(run))
            parts.append(cell if number == 1 else f"{number} x {cell}")
        return f"{self.ns:.2f} ns: {', '.join(parts)}; {self.steps[0].name} to {self.end}"


def longest_paths(text: str, top: str, count: int = 1, *, flat: bool = True) -> list[TimedPath]:
    """Synthesise Verilog, and find its longest paths, of each end the longest; slowest first.

    Parameters
    ----------
    text, top : str
        Verilog, and its top module.
    count : int
        Most paths. Ends that differ by a number only, as bits of a register do, are one.
    flat : bool
        Whether Yosys optimises across modules; without it, equal modules are mapped once, and a
        large design takes minutes less.
    """
    name = f"\\{top}" if "." in top else top
    flatten = "-flatten " if flat else ""
    script = [
        "read_verilog in.v",
        f"synth_xilinx -family {FAMILY} -abc9 -noiopad -noclkbuf {flatten}-top {name}",
    ]
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        (folder / "in.v").write_text(text)
        run_yosys([*script, "write_json out.json"], folder)
        modules = json.loads((folder / "out.json").read_text())["modules"]
    return _Netlist(modules, top).longest(count)


@dataclass(frozen=True)
class _Arc:
    """From nets to one net, through a cell; or from a clock, if there are no nets.

    ``clock_ns`` is when the net is there at the earliest, where the cell also has a clock.
    """

    cell: str
    name: str
    ns: float
    inputs: tuple[tuple[int, str], ...]  # net, pin
    clock_ns: float = 0.0


@dataclass(frozen=True)
class _End:
    """A pin at which a path ends."""

    net: int
    ns: float
    pin: str
    cell: str


class _Netlist:
    """Cells of all modules, and the nets between them."""

    def __init__(self, modules: Mapping[str, Any], top: str) -> None:
        self._modules = {
            name: module
            for name, module in modules.items()
            if not int(module.get("attributes", {}).get("blackbox", "0"), 2)
            and not module.get("attributes", {}).get("whitebox")
        }
        self._nets = 0
        self._driver: dict[int, _Arc] = {}
        self._ends: list[_End] = []
        self._sinks: dict[int, int] = defaultdict(int)
        #: Pairs of nets that are one.
        self._same: list[tuple[int, int]] = []
        self._add(top, "", {})
        for first, second in self._same * 2:  # through two levels of modules
            for one, other in ((first, second), (second, first)):
                if one in self._driver and other not in self._driver:
                    # A name more for the same net: no delay.
                    arc = self._driver[one]
                    self._driver[other] = _Arc("same", arc.name, 0.0, ((one, "same"),))

    def _add(self, module: str, prefix: str, ports: Mapping[str, Sequence[int]]) -> None:
        """Add a module's cells; ``ports`` are the nets that its ports are connected to."""
        own = self._modules[module]
        known: dict[Any, int] = {}
        for port, outer in ports.items():
            for bit, outside in zip(own["ports"][port]["bits"], outer, strict=True):
                if bit in known and outside >= 0:  # an input that is an output, too
                    self._same.append((known[bit], outside))
                else:
                    known[bit] = outside

        def net(bit: Any) -> int:
            if isinstance(bit, str):  # a constant
                return -1
            if bit not in known:
                known[bit] = self._nets
                self._nets += 1
            return known[bit]

        names: dict[Any, str] = {}
        for name, given in own.get("netnames", {}).items():
            for place, bit in enumerate(given["bits"]):
                if not int(given.get("hide_name", 0)):
                    names.setdefault(bit, f"{name}[{place}]")
        for name, cell in own["cells"].items():
            # A register is known by the net that it drives; its own name is Yosys'.
            for bit in cell["connections"].get("Q", ()):
                name = names.get(bit, name)
            pins = {pin: [net(bit) for bit in bits] for pin, bits in cell["connections"].items()}
            if cell["type"] in self._modules:
                self._add(cell["type"], f"{prefix}{name}.", pins)
            else:
                self._cell(cell, f"{prefix}{name}", pins)

    def _cell(self, cell: Mapping[str, Any], name: str, pins: Mapping[str, list[int]]) -> None:
        kind, outputs = cell["type"], cell["port_directions"]
        ins = {pin: nets for pin, nets in pins.items() if outputs.get(pin) == "input"}
        outs = {pin: nets for pin, nets in pins.items() if outputs.get(pin) == "output"}
        for nets in ins.values():
            for net in nets:
                self._sinks[net] += 1

        def starts(ns: float) -> None:
            self._through(kind, name, ns, (), [net for nets in outs.values() for net in nets])

        def ends(setup: float, wanted: str = ".*", but: str = "(?!)") -> None:
            for pin, nets in ins.items():
                if "CLK" in pin or pin == "C" or re.match(but, pin) or not re.match(wanted, pin):
                    continue
                for net in nets:
                    self._ends.append(_End(net, setup, pin, name))

        every = [(net, pin) for pin, nets in ins.items() for net in nets]
        if kind.startswith("LUT"):
            self._through(kind, name, _LUT_NS, every, outs["O"])
        elif kind == "INV":  # becomes a part of what follows
            self._through(kind, name, 0.0, every, outs["O"])
        elif kind.startswith("MUXF"):
            self._through(kind, name, _WIDE_NS, every, outs["O"])
        elif kind.startswith("CARRY"):
            self._carry(kind, name, ins, outs)
        elif kind.startswith("FD"):
            starts(_FF_NS)
            ends(_FF_SETUP_NS, "D")
            ends(_FF_CONTROL_NS, "CE|R|S|CLR|PRE")
        elif re.match(r"RAM\d+|SRL", kind):
            ends(_LUTRAM_SETUP_NS, but=r"A$|A\d|DPRA|ADDR[A-GI-Z]$")
            for pin, nets in outs.items():
                letter = pin[2:] if re.fullmatch(r"DO[A-H]", pin) else ""
                read = rf"ADDR{letter}$" if letter else r"A$|A\d|DPRA"
                given = [(net, p) for net, p in every if re.match(read, p)]
                self._through(kind, name, _LUT_NS, given, nets, clock_ns=_LUTRAM_NS)
        elif kind.startswith("URAM"):
            starts(_URAM_NS)
            ends(_BLOCK_SETUP_NS)
        elif kind.startswith("RAMB"):
            parameters = cell["parameters"]
            registered = any(
                int(value, 2) for key, value in parameters.items()
                if key in ("DOA_REG", "DOB_REG") and set(value) <= {"0", "1"}
            )  # fmt: skip
            starts(_BRAM_NS[registered])
            ends(_BLOCK_SETUP_NS)
        elif kind.startswith("DSP"):
            self._through(kind, name, _DSP_NS, every, outs["P"])
        elif not kind.startswith(("IBUF", "OBUF", "BUFG", "$scopeinfo")):
            raise DeviceError(f"no delays are known of {kind}, the type of {name}")

    def _through(
        self,
        kind: str,
        name: str,
        ns: float,
        inputs: Sequence[tuple[int, str]],
        outputs: Sequence[int],
        clock_ns: float = 0.0,
    ) -> None:
        """A cell's outputs from its inputs, or from its clock if there are none."""
        for net in outputs:
            if net >= 0:
                self._driver[net] = _Arc(kind, name, ns, tuple(inputs), clock_ns)

    def _carry(
        self, kind: str, name: str, ins: Mapping[str, list[int]], outs: Mapping[str, list[int]]
    ) -> None:
        """Bit k of the outputs is there after the bits below, and after the carry input."""
        wide = kind == "CARRY8"
        entry, carried = (0.24, 0.116) if wide else (0.186, 0.082)
        first = [(net, pin) for pin in ("CI", "CYINIT", "CI_TOP") for net in ins.get(pin, ())]
        for pin in ("O", "CO"):
            for bit, net in enumerate(outs.get(pin, ())):
                if net < 0:
                    continue
                below = [(n, p) for p in ("S", "DI") for n in ins[p][: bit + 1]]
                self._driver[net] = _Arc(
                    kind,
                    name,
                    entry,
                    (*below, *((n, f"{p}!{entry - carried}") for n, p in first)),
                )

    def longest(self, count: int) -> list[TimedPath]:
        """The longest paths."""
        at: dict[int, tuple[float, int]] = {}  # net: when it is there, the net before

        def arrived(net: int) -> float:
            """When a net is there; iterative, since carry chains and paths are long."""
            stack = [net]
            while stack:
                now = stack[-1]
                if now in at or now not in self._driver:
                    stack.pop()
                    continue
                arc = self._driver[now]
                open_ = [n for n, _ in arc.inputs if n >= 0 and n not in at and n in self._driver]
                if open_:
                    stack += open_
                    if len(stack) > 10_000_000:
                        raise DeviceError(f"a loop of logic goes through {arc.name}")
                    continue
                best, source = 0.0, -1
                for n, pin in arc.inputs:
                    if n in at:
                        when = at[n][0] + self._net_ns(n, arc, pin)
                        if when > best:
                            best, source = when, n
                from_clock = best + arc.ns < arc.clock_ns
                at[now] = (arc.clock_ns, -1) if from_clock else (best + arc.ns, source)
                stack.pop()
            return at[net][0] if net in at else 0.0

        found: dict[str, tuple[float, _End]] = {}
        for end in self._ends:
            if end.net < 0:
                continue
            ns = arrived(end.net) + self._to_end_ns(end) + end.ns
            key = re.sub(r"\d+", "", f"{end.cell}.{end.pin}")
            if end.net in at and (key not in found or found[key][0] < ns):
                found[key] = ns, end
        slowest = sorted(found.values(), key=lambda one: -one[0])[:count]
        return [
            TimedPath(tuple(self._steps(end.net, at))[::-1], f"{end.cell}.{end.pin}", ns)
            for ns, end in slowest
        ]

    def _steps(self, net: int, at: Mapping[int, tuple[float, int]]) -> Iterator[Step]:
        while net in at:
            arc = self._driver[net]
            if arc.cell != "same":
                yield Step(arc.cell, arc.name, at[net][0])
            net = at[net][1]

    def _net_ns(self, net: int, arc: _Arc, pin: str) -> float:
        """Nanoseconds of a net to a cell's pin, less what the pin is faster than the slowest."""
        source = self._driver[net].cell
        if arc.cell == "same":
            return 0.0
        if arc.cell.startswith("CARRY"):
            name, _, faster = pin.partition("!")
            if faster:
                near = source.startswith("CARRY")
                return (_CARRY_NS if near else NET_NS) - float(faster)
            # The sum of a carry chain is always that of the LUT below it.
            return _SUM_NS if source.startswith("LUT") and name == "S" else NET_NS
        if arc.cell.startswith("MUXF") and pin != "S" and source.startswith(("LUT", "MUXF")):
            return _MUX_NS
        return 0.0 if source == "INV" else NET_NS

    def _to_end_ns(self, end: _End) -> float:
        driver = self._driver.get(end.net)
        while driver is not None and driver.cell == "same":
            driver = self._driver.get(driver.inputs[0][0])
        near = driver is not None and driver.cell.startswith(("LUT", "CARRY", "MUXF"))
        return _BESIDE_NS if near and end.pin == "D" and self._sinks[end.net] == 1 else NET_NS
