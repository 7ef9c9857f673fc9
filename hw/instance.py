"""Modules that a design has many times: elaborated once, written once, instantiated.

Amaranth elaborates every component and writes a module for each, however many are equal. That is
what simulations in Amaranth and proofs run. For Verilog, :class:`Modules` is the platform: what a
parent adds by :func:`instantiated` is then an instance of a module that is written beside it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.hdl import ClockSignal, Instance, ResetSignal
from amaranth.lib import wiring


@dataclass
class Modules:
    """Platform of a design that is written as text.

    Parameters
    ----------
    name : str
        Of the top module; the names of all others begin with it.
    target : str, optional
        None for synthesis, or :data:`penstock.hw.hls.compare.SIMULATION`.
    """

    name: str
    target: str | None = None
    _made: dict[str, tuple[Hashable, str]] = field(default_factory=dict, init=False)

    def convert(self, component: wiring.Component) -> str:
        """RTLIL of the top component and of all modules that it instantiates."""
        top = rtlil.convert(component, platform=self, name=self.name, emit_src=False)
        return "".join([top, *(text for _, text in self._made.values())])

    def instance(self, component: wiring.Component, name: str, key: Hashable) -> Instance:
        """An instance of a component's module, with the component's ports connected."""
        full = f"{self.name}.{name}"
        if name not in self._made:
            text = rtlil.convert(component, platform=self, name=full, emit_src=False)
            self._made[name] = key, text.replace("  attribute \\top 1\n", "")
        known, _ = self._made[name]
        assert known == key, f"two components of different make are named {name}"
        ports = [
            ("i" if member.flow is wiring.In else "o", "__".join(map(str, path)), value)
            for path, member, value in component.signature.flatten(component)
        ]
        return Instance(full, ("i", "clk", ClockSignal()), ("i", "rst", ResetSignal()), *ports)


def instantiated(
    component: wiring.Component, name: str, key: Hashable, platform: object
) -> Any:  # Amaranth's stubs do not know that an Instance can be added
    """What a parent adds to its submodules: the component, or an instance in :class:`Modules`.

    Parameters
    ----------
    component : wiring.Component
        Its clock domain is ``sync``, with registers that are reset; all its ports are connected.
    name : str
        Of its module, below that of the top.
    key : hashable
        Equal for components that are equal.
    platform : object
        For which the parent is elaborated.
    """
    return platform.instance(component, name, key) if isinstance(platform, Modules) else component
