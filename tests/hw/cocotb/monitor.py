"""Watches all ports of the kernel in a simulation and applies the rules to what it sees."""

from __future__ import annotations

from cocotb.triggers import RisingEdge

from tests.hw.cocotb.rules import Bursts, Lite, Report, Stability

_REQUEST = ("ID", "ADDR", "LEN", "SIZE", "BURST", "LOCK", "CACHE", "PROT", "QOS", "REGION")

#: What travels with VALID on each channel that the kernel drives.
_DRIVEN = {"AR": _REQUEST, "AW": _REQUEST, "W": ("DATA", "STRB", "LAST")}
_LITE_DRIVEN = {"B": ("RESP",), "R": ("DATA", "RESP")}


#: Cycles from the reset until all outputs are defined: it comes in after an edge, and through two
#: registers.
_RESET_CYCLES = 4


class _Channel:
    """Signals of a channel."""

    def __init__(self, dut, port: str, name: str, fields: tuple[str, ...]) -> None:
        self.name = name
        self._valid = getattr(dut, f"{port}_{name}VALID")
        self._ready = getattr(dut, f"{port}_{name}READY")
        self._fields = {field: getattr(dut, f"{port}_{name}{field}") for field in fields}

    def sample(self) -> tuple[bool, bool]:
        """VALID and READY; raises ValueError where one is undefined."""
        return bool(int(self._valid.value)), bool(int(self._ready.value))

    def payload(self) -> dict[str, int]:
        return {field: int(signal.value) for field, signal in self._fields.items()}


class Monitor:
    """Checks the ports of a kernel in every cycle.

    Parameters
    ----------
    dut
        The kernel in the simulator.
    lite : str
        Prefix of its register port.
    ports : list of str
        Prefixes of its memory ports.
    word_bytes, most_words, most_bursts : int
        See :class:`tests.hw.cocotb.rules.Bursts`.
    report : callable
        Gets each violation.
    """

    def __init__(
        self,
        dut,
        lite: str,
        ports: list[str],
        *,
        word_bytes: int,
        most_words: int,
        most_bursts: int,
        report: Report,
    ) -> None:
        self._clock, self._reset = dut.ap_clk, dut.ap_rst_n
        self._report = report
        self.bursts = {
            port: Bursts(port, word_bytes, most_words, most_bursts, report) for port in ports
        }
        self._lite = Lite(lite, report)
        self._watched = [
            (_Channel(dut, port, name, fields), Stability(f"{port} {name}", report), port)
            for port in ports
            # AW before W: a word may come with its request.
            for name, fields in _DRIVEN.items()
        ]
        self._answers = [
            (_Channel(dut, port, name, ("ID",)), port) for port in ports for name in ("R", "B")
        ]
        self._lite_asked = [_Channel(dut, lite, name, ()) for name in ("AW", "W", "AR")]
        self._lite_answers = [
            (_Channel(dut, lite, name, fields), Stability(f"{lite} {name}", report))
            for name, fields in _LITE_DRIVEN.items()
        ]

    async def run(self) -> None:
        """Watch for ever."""
        edge = RisingEdge(self._clock)
        in_reset = 0
        while True:
            await edge
            try:
                if not int(self._reset.value):
                    in_reset += 1
                    if in_reset > _RESET_CYCLES:
                        self._silent()
                    continue
                in_reset = 0
                self._memory()
                self._registers()
            except ValueError as error:  # an undefined bit is no integer
                self._report(f"an output that counts is undefined: {error}")

    def finish(self) -> None:
        """What must hold when no task runs."""
        for bursts in self.bursts.values():
            bursts.finish()

    def _silent(self) -> None:
        """Reset: no VALID from the second edge on."""
        channels = [channel for channel, *_ in (*self._watched, *self._lite_answers)]
        if any(channel.sample()[0] for channel in channels):
            self._report("VALID is high in reset")

    def _memory(self) -> None:
        # Answers of a cycle belong to requests of earlier ones.
        for channel, port in self._answers:
            valid, ready = channel.sample()
            bursts = self.bursts[port]
            bursts.waiting(channel.name, valid, ready)
            if valid and ready and channel.name == "R":
                bursts.read_word(channel.payload()["ID"])
            elif valid and ready:
                bursts.answer()
        for channel, stability, port in self._watched:
            valid, ready = channel.sample()
            payload = channel.payload() if valid else {}
            stability.cycle(valid, ready, tuple(payload.values()))
            if valid and ready:
                self._transfer(self.bursts[port], channel.name, payload)

    def _transfer(self, bursts: Bursts, name: str, payload: dict[str, int]) -> None:
        if name == "W":
            bursts.write_word(bool(payload["LAST"]), payload["STRB"])
            return
        request = payload["ADDR"], payload["LEN"], payload["SIZE"], payload["BURST"]
        if name == "AR":
            bursts.read_request(payload["ID"], *request)
        else:
            bursts.write_request(*request)

    def _registers(self) -> None:
        for channel, stability in self._lite_answers:
            valid, ready = channel.sample()
            payload = channel.payload() if valid else {}
            stability.cycle(valid, ready, tuple(payload.values()))
            if valid and ready:
                self._lite.answer(channel.name, payload["RESP"] == 0)
        for channel in self._lite_asked:
            if all(channel.sample()):
                self._lite.handshake(channel.name)
