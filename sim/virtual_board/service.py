"""PYNQ's remote protocol in front of a machine.

The messages and stubs are those of the ``pynq`` package, 3.1 or 4.0, whichever is installed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any, Self

import grpc  # pyright: ignore
import numpy as np
from pynq.remote import (  # pyright: ignore
    buffer_pb2,
    buffer_pb2_grpc,
    mmio_pb2,
    mmio_pb2_grpc,
    remote_device_pb2,
    remote_device_pb2_grpc,
)

from penstock.constraints.boards import board as find_board
from penstock.errors import DeviceError
from penstock.host.devices.board.link import DEPLOYED, FAULTS
from penstock.hw.board.placement import ZYNQ, system_of

from ..verilated.verilated_board import MemoryModel
from .bitfile import read_bin
from .machine import Machine

_CHUNK_BYTES = 2 << 20
#: Seconds in which calls under way must end when the service stops.
_GRACE_S = 1.0


_FIRMWARE = "/lib/firmware/"
_MANAGER = "/sys/class/fpga_manager/fpga0/"


class Files:
    """A small file system; writing the FPGA manager's ``firmware`` loads a bitstream.

    Parameters
    ----------
    board : str
        Name of the board.
    is_64_bit : bool
        Whether its processor is an aarch64.
    deployed : Path, optional
        Folder behind ``/home/xilinx/penstock``.
    machine : Machine
        Loads bitstreams, and has the faults that can be read.
    """

    def __init__(
        self,
        board: str,
        is_64_bit: bool,
        deployed: Path | None,
        machine: Machine,
    ) -> None:
        kind = "aarch64" if is_64_bit else "armv7l"
        self._machine = machine
        self._deployed = deployed
        self._files = {
            "/proc/version": f"Linux version 6.6 (virtual) ({kind}-linux-gnu-gcc)\n".encode(),
            "/proc/device-tree/chosen/pynq_board": f"{board}\0".encode(),
            f"{_MANAGER}state": b"unknown\n",
            f"{_MANAGER}flags": b"0\n",
            f"{_MANAGER}firmware": b"",
        }

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        return path in (FAULTS, *self._files) or self._on_disk(path) is not None

    def read(self, path: str) -> bytes:
        """A file's contents.

        Raises
        ------
        DeviceError
            There is none.
        """
        if path == FAULTS:
            return "\n".join(self._machine.reports).encode()
        if path in self._files:
            return self._files[path]
        if (found := self._on_disk(path)) is not None:
            return found.read_bytes()
        raise DeviceError(f"there is no file {path} on the board")

    def write(self, path: str, data: bytes) -> None:
        """Write a file.

        Raises
        ------
        DeviceError
            It names a bitstream that cannot be loaded.
        """
        self._files[path] = data
        if path == f"{_MANAGER}firmware":
            name = data.decode().strip()
            self._machine.configure(read_bin(self.read(_FIRMWARE + name)))
            self._files[f"{_MANAGER}state"] = b"operating\n"

    def _on_disk(self, path: str) -> Path | None:
        if self._deployed is None or not path.startswith(f"{DEPLOYED}/"):
            return None
        root = self._deployed.resolve()
        found = (root / path.removeprefix(f"{DEPLOYED}/")).resolve()
        return found if found.is_relative_to(root) and found.is_file() else None


def _said(answer: Callable[..., Any], act: Callable[[], Any]) -> Any:
    """An answer with the result of ``act``, or with the message of its error."""
    try:
        given = act()
    except DeviceError as error:
        return answer(msg=str(error))
    return answer(**(given or {}))


class _Mmio(mmio_pb2_grpc.MmioServicer):
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._bases: dict[str, int] = {}
        self._names = itertools.count(1)
        field = mmio_pb2.ReadResponse.DESCRIPTOR.fields_by_name["data"]
        #: 3.1 has a signed field, 4.0 an unsigned one.
        self._signed = field.type == field.TYPE_INT32

    def get_mmio(self, request: Any, context: Any) -> Any:
        name = str(next(self._names))
        self._bases[name] = request.base_addr
        return mmio_pb2.GetMmioResponse(status=True, mmio_id=name)

    def read(self, request: Any, context: Any) -> Any:
        def act() -> dict[str, Any]:
            value = self._machine.read(self._bases[request.mmio_id] + request.offset)
            if self._signed and value >> 31:
                value -= 1 << 32
            return {"status": True, "data": value}

        return _said(mmio_pb2.ReadResponse, act)

    def write(self, request: Any, context: Any) -> Any:
        def act() -> dict[str, Any]:
            # As on a board, only the first word of longer data arrives.
            value = int.from_bytes(request.data[:4], "little")
            self._machine.write(self._bases[request.mmio_id] + request.offset, value)
            return {"status": True}

        return _said(mmio_pb2.WriteResponse, act)


class _Buffers(buffer_pb2_grpc.RemoteBufferServicer):
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        #: Bytes that the client asked for; the memory behind is whole pages.
        self._sizes: dict[str, int] = {}

    def allocate(self, request: Any, context: Any) -> Any:
        try:
            name = self._machine.memory.allocate(request.size)
        except DeviceError as error:
            # The client does not look at the message of this answer.
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
            raise
        self._sizes[name] = request.size
        return buffer_pb2.AllocateResponse(buffer_id=name)

    def write(self, requests: Iterator[Any], context: Any) -> Any:
        def act() -> None:
            offset = 0
            for request in requests:
                data = self._machine.memory.buffer(request.buffer_id).data
                part = np.frombuffer(request.data, np.uint8)
                if offset + len(part) > self._sizes[request.buffer_id]:
                    raise DeviceError(f"{len(part)} bytes at {offset} do not fit the buffer")
                data[offset : offset + len(part)] = part
                offset += len(part)

        return _said(buffer_pb2.BufferWriteResponse, act)

    def read(self, request: Any, context: Any) -> Iterator[Any]:
        try:
            data = self._machine.memory.buffer(request.buffer_id).data
        except DeviceError as error:
            yield buffer_pb2.BufferReadResponse(msg=str(error))
            return
        size = self._sizes[request.buffer_id]
        for offset in range(0, size, _CHUNK_BYTES):
            part = data[offset : min(offset + _CHUNK_BYTES, size)]
            yield buffer_pb2.BufferReadResponse(data=part.tobytes())

    def freebuffer(self, request: Any, context: Any) -> Any:
        self._machine.memory.free(request.buffer_id)
        self._sizes.pop(request.buffer_id, None)
        return buffer_pb2.FreeBufferResponse()

    def flush(self, request: Any, context: Any) -> Any:
        return buffer_pb2.FlushResponse()

    def invalidate(self, request: Any, context: Any) -> Any:
        return buffer_pb2.InvalidateResponse()

    def cacheable(self, request: Any, context: Any) -> Any:
        return buffer_pb2.CacheableResponse(cacheable=True)

    def physical_address(self, request: Any, context: Any) -> Any:
        return _said(
            buffer_pb2.AddressResponse,
            lambda: {"address": self._machine.memory.buffer(request.buffer_id).address},
        )

    def virtual_address(self, request: Any, context: Any) -> Any:
        return self.physical_address(request, context)


class _Device(remote_device_pb2_grpc.RemoteDeviceServicer):
    def __init__(self, machine: Machine, files: Files) -> None:
        self._machine = machine
        self._files = files

    def set_bitstream_attrs(self, request: Any, context: Any) -> Any:
        return remote_device_pb2.SetBitstreamAttrsResponse(status=True)

    def existsfile(self, request: Any, context: Any) -> Any:
        return remote_device_pb2.ExistsFileResponse(exists=self._files.exists(request.file_path))

    def readfile(self, request: Any, context: Any) -> Iterator[Any]:
        data = self._checked(context, lambda: self._files.read(request.file_path))
        for offset in range(0, max(len(data), 1), _CHUNK_BYTES):
            yield remote_device_pb2.ReadFileResponse(data=data[offset : offset + _CHUNK_BYTES])

    def writefile(self, requests: Iterator[Any], context: Any) -> Any:
        path, parts = "", []
        for request in requests:
            path = request.file_path
            parts.append(request.data)
        self._checked(context, lambda: self._files.write(path, b"".join(parts)))
        return remote_device_pb2.WriteFileResponse()

    def set_pl_clk(self, request: Any, context: Any) -> Any:
        return remote_device_pb2.SetPlClkResponse(status=True)

    def shutdown(self, request: Any, context: Any) -> Any:
        self._machine.unload()
        return remote_device_pb2.ShutdownResponse(status=True)

    def _checked(self, context: Any, act: Callable[[], Any]) -> Any:
        """Result of ``act``. An error fails the call: the answer has no room for a message."""
        try:
            return act()
        except DeviceError as error:
            self._machine.report(str(error))
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))


class Server:
    """Serves a machine on a port of this host.

    Parameters
    ----------
    machine : Machine
    files : Files
    address : str
        Host and port; port 0 takes a free one.

    Attributes
    ----------
    port : int
    """

    def __init__(self, machine: Machine, files: Files, address: str) -> None:
        self.machine = machine
        self._server = grpc.server(futures.ThreadPoolExecutor(8, "penstock-board"))
        mmio_pb2_grpc.add_MmioServicer_to_server(_Mmio(machine), self._server)
        buffer_pb2_grpc.add_RemoteBufferServicer_to_server(_Buffers(machine), self._server)
        remote_device_pb2_grpc.add_RemoteDeviceServicer_to_server(
            _Device(machine, files), self._server
        )
        try:
            self.port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise DeviceError(f"the virtual board cannot listen on {address}: {error}") from error
        self._server.start()

    def close(self) -> None:
        """Stop the service and the kernels."""
        self._server.stop(_GRACE_S).wait()
        self.machine.unload()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def serve(
    name: str,
    model: MemoryModel,
    *,
    memory_bytes: int,
    deployed: Path | None = None,
    address: str = "127.0.0.1:0",
) -> Server:
    """A virtual board that listens.

    Parameters
    ----------
    name : str
        A Zynq board of the table.
    model : MemoryModel
        How its memory behaves for the kernels.
    memory_bytes : int
        Memory that clients can allocate.
    deployed : Path, optional
        Folder behind ``/home/xilinx/penstock``.
    address : str
        Host and port; port 0 takes a free one.
    """
    entry = find_board(name)
    machine = Machine(entry, model, memory_bytes)
    return Server(machine, Files(name, system_of(entry) is not ZYNQ, deployed, machine), address)
