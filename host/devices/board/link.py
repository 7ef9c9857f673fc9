"""A board that PYNQ reaches, and the overlay loaded into it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any

from penstock.errors import DeviceError, MissingToolError, installing

from .package import DESCRIPTION, Package
from .port import MAX_BUFFER_BYTES, BoardMemory, CorePort

#: Path of the deploy folder on a board.
DEPLOYED = "/home/xilinx/penstock"
#: File of the deploy folder that lists the packages, one a line.
INDEX = "packages"
#: File in which a virtual board describes its own failure.
FAULTS = "/sys/kernel/debug/penstock/faults"
_DEFAULT_PORT = 7967
#: Seconds that one access to a remote board may take.
TIMEOUT_S = 60.0
#: PLL of the logic's clocks on a Zynq-7000, in MHz.
_ZYNQ_PLL_MHZ = 1000

#: Held while PYNQ's cache of handoffs is off.
_UNCACHED = Lock()


@contextmanager
def _talking(name: str) -> Iterator[None]:
    """Turn errors of PYNQ and of its connection into errors of the device."""
    try:
        yield
    except DeviceError:
        raise
    except ModuleNotFoundError as error:
        raise MissingToolError(
            f"the board device needs the package {error.name}, which is not installed; "
            f"{installing('board')}"
        ) from error
    except Exception as error:  # PYNQ passes on its layers': RuntimeError, grpc.RpcError ...
        details = getattr(error, "details", None)
        text = details() if callable(details) else str(error)
        raise DeviceError(f"{name}: {text}") from error


class BoardLink:
    """A board.

    Parameters
    ----------
    target : object
        PYNQ's device.
    name : str
        Name in messages.
    is_gone : callable, optional
        Whether an error means that the board no longer answers; its contents are lost then.

    Attributes
    ----------
    overlay : object
        PYNQ's object of the loaded overlay; None before :meth:`load`.
    """

    def __init__(
        self,
        target: Any,
        name: str,
        is_gone: Callable[[BaseException | None], bool] = lambda _: False,
    ) -> None:
        self.name = name
        self._target = target
        self._is_gone = is_gone
        self._lost: str | None = None
        self._loaded: Package | None = None
        self.overlay: Any = None

    @staticmethod
    def remote(address: str, timeout_s: float = TIMEOUT_S) -> BoardLink:
        """A board that serves PYNQ's remote protocol at ``host`` or ``host:port``.

        Parameters
        ----------
        address : str
        timeout_s : float
            Seconds to wait for the answer of a call.

        Raises
        ------
        MissingToolError
            PYNQ is not installed, or is too old for it.
        DeviceError
            Nothing answers at the address.
        """
        host, _, port = address.partition(":")
        with _talking(f"board {address}"):
            from pynq.pl_server.remote_device import RemoteDevice  # pyright: ignore

            from .deadline import is_gone, limit_calls

            target = RemoteDevice(0, host, int(port or _DEFAULT_PORT))
            limit_calls(target, timeout_s)
            return BoardLink(target, f"board {address}", is_gone)

    @staticmethod
    def local(index: int = 0) -> BoardLink:
        """A board that this process runs on, or a card in this machine.

        Raises
        ------
        MissingToolError
            PYNQ is not installed.
        DeviceError
            There is no such board.
        """
        with _talking("board"):
            from pynq import Device  # pyright: ignore

            boards, count = Device.devices, len(Device.devices)
            if index >= count:
                raise DeviceError(f"PYNQ finds {count} boards here; there is no board {index}")
            return BoardLink(boards[index], f"board {index}")

    def deployed(self) -> list[Package]:
        """Packages of the deploy folder on a remote board; their files are fetched when needed.

        Raises
        ------
        DeviceError
            The board has no deploy folder.
        """
        with self._call():
            index = f"{DEPLOYED}/{INDEX}"
            if not self._target.exists_file(index).exists:
                raise DeviceError(
                    f"{self.name} has no folder {DEPLOYED}; copy a deploy folder there, or give "
                    "the folder of a package"
                )
            names = self._target.read_file(index).decode().split()
            return [
                Package.parse(
                    self._target.read_file(f"{DEPLOYED}/{name}/{DESCRIPTION}").decode(),
                    f"{self.name}:{DEPLOYED}/{name}/{DESCRIPTION}",
                    Path(name),
                )
                for name in names
            ]

    def load(self, package: Package) -> list[CorePort]:
        """Load an overlay unless it is loaded; returns its kernels."""
        with self._call():
            if package != self._loaded:
                self._loaded = None
                self.overlay = self._load(package)
                self._loaded = package
            return [
                CorePort(getattr(self.overlay, name), package.table, f"{self.name}, {name}")
                for name in package.instances
            ]

    def _load(self, package: Package) -> Any:
        assert package.folder is not None
        if package.folder.is_absolute():
            return _open_overlay(package.path, self._target)
        with tempfile.TemporaryDirectory(prefix="penstock-overlay-") as folder:
            for name in package.files:
                data = self._target.read_file(f"{DEPLOYED}/{package.folder}/{name}")
                Path(folder, name).write_bytes(data)
            return _open_overlay(Path(folder, package.overlay), self._target)

    def allocate(self, size: int, banks: Sequence[str] = ()) -> BoardMemory:
        """Allocate memory in the first of some banks that has room; in the only one by default.

        Raises
        ------
        DeviceError
            None has room.
        """
        if not banks:
            with self._call():
                return BoardMemory(self._target, size)
        for bank in banks[:-1]:
            with suppress(DeviceError):
                return self._allocate_in(bank, size)
        return self._allocate_in(banks[-1], size)

    def _allocate_in(self, bank: str, size: int) -> BoardMemory:
        if size > (most := self.bank_bytes(bank)):
            raise DeviceError(f"{self.name}: {size} bytes do not fit {bank}, which has {most}")
        try:
            with self._call():
                return BoardMemory(self._target.get_memory_by_name(bank), size)
        except DeviceError as error:
            raise DeviceError(f"{error}: {size} bytes in {bank}") from error

    def bank_bytes(self, bank: str | None) -> int:
        """Most bytes of a buffer in a bank of the loaded overlay; None is the only one."""
        if bank is None:
            return MAX_BUFFER_BYTES
        with self._call():
            memory = self._target.mem_dict.get(bank)
        if memory is None:
            raise DeviceError(f"{self.name} has no memory {bank}; is the package the overlay's?")
        return min(memory["size"], MAX_BUFFER_BYTES)

    def free(self, memory: BoardMemory) -> None:
        """Free memory; on a board that is gone there is nothing to free."""
        if self._lost is not None:
            return
        try:
            self.talk(memory.free)
        except DeviceError:
            if self._lost is None:  # otherwise this call is the first to find it gone
                raise

    def talk(self, act: Callable[[], Any]) -> Any:
        """Do something that talks to the board; errors include the board's own message."""
        try:
            with self._call():
                return act()
        except DeviceError as error:
            if faults := self._faults():
                raise DeviceError(f"{error}; the board says: {faults}") from error
            raise

    @contextmanager
    def _call(self) -> Iterator[None]:
        """Guard calls to the board; once it is gone no call is made."""
        if self._lost is not None:
            raise DeviceError(self._lost)
        try:
            with _talking(self.name):
                yield
        except DeviceError as error:
            if self._is_gone(error.__cause__):
                self._lost = f"{error}; the board is gone, and what was on it: open it again"
                raise DeviceError(self._lost) from error.__cause__
            raise

    def _faults(self) -> str:
        if self._lost is not None:
            return ""
        try:
            if self._target.exists_file(FAULTS).exists:
                return self._target.read_file(FAULTS).decode().strip().replace("\n", "; ")
        except Exception:  # not remote: nothing to add
            pass
        return ""


def _open_overlay(path: Path, target: Any) -> Any:
    """Open an overlay, and make sure that PYNQ knows all its clocks and sets them on this board.

    PYNQ sets the clocks of the active device, and remembers the first such device. PYNQ 4.0 cannot
    set clocks of a Zynq-7000: its handoff names dividers, not frequencies.
    """
    from pynq import Device, Overlay  # pyright: ignore
    from pynq.ps import Clocks  # pyright: ignore

    Device.active_device = target
    Clocks.device = target
    if hasattr(Clocks, "_real_instance"):
        del Clocks._real_instance
    with _uncached():
        overlay = Overlay(str(path), download=False, device=target)
    for clock in getattr(overlay, "clock_dict", {}).values():
        if "divisor0" in clock and clock.get("frequency", 0) is None:
            clock["frequency"] = _ZYNQ_PLL_MHZ / (clock["divisor0"] * clock.get("divisor1", 1))
    overlay.download()
    return overlay


@contextmanager
def _uncached() -> Iterator[None]:
    """Let PYNQ read handoffs from their files.

    PYNQ keeps the latest handoff in its own folder, for all processes, and uses it for every
    overlay with the same hash of the bitstream. So a changed handoff would be ignored, and two
    processes that load overlays at the same time might get each other's.
    """
    from pynq.pl_server import embedded_device  # pyright: ignore

    def none(handler: Any) -> None:
        raise embedded_device.CacheMetadataError("Penstock reads the handoff itself")

    handlers = embedded_device.BitstreamHandler
    with _UNCACHED:
        kept, handlers._get_cache = handlers._get_cache, none
        try:
            yield
        finally:
            handlers._get_cache = kept
