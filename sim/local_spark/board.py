"""A virtual board and the device server in front of it, in an environment that has PYNQ.

PYNQ pins versions of NumPy, gRPC and protobuf that Spark's streams cannot use, so no environment
has both. Spark's tasks reach the board through the server, as they would reach a real one.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

from penstock.errors import MissingToolError, installing

from .child import Child

#: Seconds until a board listens; it may export kernels first.
_BOARD_S = 300.0

#: Seconds until the server has opened it.
_SERVER_S = 60.0

#: Seconds for Python to say whether it has PYNQ.
_IMPORT_S = 60.0

#: The command line of Penstock as that environment has it, not as the current folder has it.
_PENSTOCK = ["-P", "-c", "from penstock.cli.main import run; run()"]


class ServedBoard:
    """A virtual board as device of a device server.

    Parameters
    ----------
    name : str
        A Zynq board: "zcu104".
    python : Path
        Of an environment with ``penstock[board,rtl]``.
    logs : Path
        Folder of the logs.
    ended : callable, optional
        As for :class:`Child`.

    Attributes
    ----------
    children : list of Child
        In the order in which they are to be stopped.
    device : str
        The board, as ``spark.penstock.device`` names it.
    metrics : str
        Where the server counts evaluations, for Prometheus.

    Raises
    ------
    MissingToolError
        The environment lacks PYNQ.
    ProcessError
        One of the two did not come up.
    """

    def __init__(
        self, name: str, python: Path, logs: Path, ended: Callable[[Child], None] | None = None
    ) -> None:
        _check(python)
        # Paths of Unix sockets must be short.
        self._folder = Path(mkdtemp(prefix="penstock-"))
        self._socket = self._folder / "fpga.sock"
        self.children: list[Child] = []
        penstock = [str(python), *_PENSTOCK]
        listen = ("--listen", "127.0.0.1:0")
        board = Child(
            f"the virtual board {name}",
            [*penstock, "board", "--virtual", name, *listen],
            logs / "board.log",
            ended=ended,
        )
        self.children.append(board)
        try:
            address = board.wait_for(rf"^virtual {name} at (\S+)$", _BOARD_S)[1]
            serve = ("serve", "--metrics-port", "0")
            socket = f"unix://{self._socket}"
            server = Child(
                "the device server of the board",
                [*penstock, *serve, "--device", f"board?address={address}", "--listen", socket],
                logs / "server.log",
                ended=ended,
            )
            self.children.insert(0, server)
            server.wait_for(r"^serving board at ", _SERVER_S)
            self.metrics = server.wait_for(r"^metrics at (http://\S+)$", _SERVER_S)[1]
        except BaseException:
            self.stop()
            raise
        self.device = f"remote?address={socket}"

    def stop(self) -> None:
        """End the board and the server."""
        for child in self.children:
            child.stop()
        self._socket.unlink(missing_ok=True)
        with suppress(OSError):  # somebody has put a file there
            self._folder.rmdir()


def _check(python: Path) -> None:
    test = [str(python), "-P", "-c", "import pynq.remote, penstock"]
    try:
        done = subprocess.run(test, capture_output=True, text=True, timeout=_IMPORT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingToolError(
            f"{python} cannot be run: {error}; give the Python of an environment with "
            "penstock[board,rtl], which has PYNQ"
        ) from error
    if done.returncode != 0:
        message = (done.stderr.strip().splitlines() or [""])[-1]
        raise MissingToolError(
            f"{python} has no PYNQ with its remote protocol ({message}); make an environment for "
            "it: python3 -m venv board; then, with its pip, " + installing("board,rtl")
        )
