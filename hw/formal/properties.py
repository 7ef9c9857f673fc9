"""Amaranth's property language, which its type stubs do not know yet."""

from __future__ import annotations

from typing import Any

from amaranth import asserts, hdl

AnyConst: Any = asserts.AnyConst  # pyright: ignore[reportAttributeAccessIssue]
AnySeq: Any = asserts.AnySeq  # pyright: ignore[reportAttributeAccessIssue]
Assert: Any = hdl.Assert
Assume: Any = hdl.Assume
