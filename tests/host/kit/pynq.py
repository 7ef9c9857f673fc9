"""Virtual boards for tests that run without PYNQ as well, which has an environment of its own.

See ``make test-board``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from penstock.constraints.boards import ToolFlow, board
from penstock.host.device.base import Device


def virtual_board(board_name: str, **options: Any) -> Device:
    """A virtual board or card for range joins; skips the test where PYNQ cannot have it."""
    return _kit(board_name).VirtualBoard(board_name, **options)


def virtual_window_board(board_name: str, **options: Any) -> Device:
    """The same for window joins."""
    return _kit(board_name).VirtualWindowBoard(board_name, **options)


def _kit(board_name: str) -> Any:
    pytest.importorskip("pynq", exc_type=ModuleNotFoundError)
    if board(board_name).flow is ToolFlow.VIVADO:
        # PYNQ 3.0, the last one with Alveo cards, has no remote protocol.
        pytest.importorskip("pynq.remote", exc_type=ModuleNotFoundError)
    return import_module("tests.host.kit.virtual_board")
