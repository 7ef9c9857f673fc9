"""AXI4 of the kernel: streams inside, the standard's signals at its ports."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

#: A request for a burst of whole words. The length is one less than its words, as in AXI.
BURST = data.StructLayout({"address": 64, "length": 8, "id": 1})
#: Response to a burst that was written.
WRITTEN = data.StructLayout({"error": 1})


class ReadPort(wiring.PureInterface):
    """Type of what :func:`read_port` creates."""

    burst: stream.Interface
    word: stream.Interface


class WritePort(wiring.PureInterface):
    """Type of what :func:`write_port` creates."""

    burst: stream.Interface
    word: stream.Interface
    done: stream.Interface


def read_port(word_bits: int) -> wiring.Signature:
    """Streams of a port that reads: requests, and words with the ID of their request."""
    word = data.StructLayout({"data": word_bits, "id": 1, "error": 1})
    return wiring.Signature(
        {"burst": Out(stream.Signature(BURST)), "word": In(stream.Signature(word))}
    )


def write_port(word_bits: int) -> wiring.Signature:
    """Streams of a port that writes: requests, words, and a response to each request."""
    word = data.StructLayout({"data": word_bits, "last": 1})
    return wiring.Signature(
        {
            "burst": Out(stream.Signature(BURST)),
            "word": Out(stream.Signature(word)),
            "done": In(stream.Signature(WRITTEN)),
        }
    )


#: Signals of a request channel, besides VALID and READY.
_REQUEST = {
    "ID": 1,
    "ADDR": 64,
    "LEN": 8,
    "SIZE": 3,
    "BURST": 2,
    "LOCK": 1,
    "CACHE": 4,
    "PROT": 3,
    "QOS": 4,
    "REGION": 4,
}

#: The modifiable and bufferable bits, as for memory.
_CACHE = 0b0011


def memory_members(name: str, word_bits: int) -> dict[str, wiring.Member]:
    """Ports of a memory master, named as tools expect them."""
    driven = {
        "AW": _REQUEST,
        "W": {"DATA": word_bits, "STRB": word_bits // 8, "LAST": 1},
        "AR": _REQUEST,
    }
    taken = {"B": {"ID": 1, "RESP": 2}, "R": {"ID": 1, "DATA": word_bits, "RESP": 2, "LAST": 1}}
    members: dict[str, wiring.Member] = {}
    for channel, fields in driven.items():
        members |= {f"{name}_{channel}{field}": Out(bits) for field, bits in fields.items()}
        members |= {f"{name}_{channel}VALID": Out(1), f"{name}_{channel}READY": In(1)}
    for channel, fields in taken.items():
        members |= {f"{name}_{channel}{field}": In(bits) for field, bits in fields.items()}
        members |= {f"{name}_{channel}VALID": In(1), f"{name}_{channel}READY": Out(1)}
    return members


class MemoryPort:
    """Connects a master's streams to the ports of :func:`memory_members`.

    Parameters
    ----------
    m : Module
        Where the connections go.
    top : wiring.Component
        Has the ports.
    name : str
        What they begin with.
    word_bits : int
        Width of their words.
    """

    def __init__(self, m: Module, top: wiring.Component, name: str, word_bits: int) -> None:
        self._m = m
        self._top = top
        self._name = name
        self._word_bytes = word_bits // 8

    def _port(self, name: str) -> Signal:
        return getattr(self._top, f"{self._name}_{name}")

    def read(self, port: ReadPort) -> None:
        """Connect a read port; the write channels rest."""
        self._request("AR", port.burst)
        word = port.word
        self._m.d.comb += [
            word.payload.data.eq(self._port("RDATA")),
            word.payload.id.eq(self._port("RID")),
            word.payload.error.eq(self._port("RRESP")[1]),
            word.valid.eq(self._port("RVALID")),
            self._port("RREADY").eq(word.ready),
        ]

    def write(self, port: WritePort) -> None:
        """Connect a write port; the read channels rest."""
        self._request("AW", port.burst)
        word, done = port.word, port.done
        self._m.d.comb += [
            self._port("WDATA").eq(word.payload.data),
            self._port("WSTRB").eq(-1),
            self._port("WLAST").eq(word.payload.last),
            self._port("WVALID").eq(word.valid),
            word.ready.eq(self._port("WREADY")),
            done.payload.error.eq(self._port("BRESP")[1]),
            done.valid.eq(self._port("BVALID")),
            self._port("BREADY").eq(done.ready),
        ]

    def _request(self, channel: str, burst: stream.Interface) -> None:
        self._m.d.comb += [
            self._port(f"{channel}ID").eq(burst.payload.id),
            self._port(f"{channel}ADDR").eq(burst.payload.address),
            self._port(f"{channel}LEN").eq(burst.payload.length),
            self._port(f"{channel}SIZE").eq((self._word_bytes - 1).bit_length()),
            self._port(f"{channel}BURST").eq(0b01),
            self._port(f"{channel}CACHE").eq(_CACHE),
            self._port(f"{channel}VALID").eq(burst.valid),
            burst.ready.eq(self._port(f"{channel}READY")),
        ]
