"""Deadlines for calls to a remote board: PYNQ's client would wait for ever.

A board that loses its power or its cable closes no connection; only a timeout shows that it is
gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc  # pyright: ignore

#: Seconds for a call that may load a bitstream; a virtual board compiles Verilog then.
_LOAD_S = 600.0
#: PYNQ's name of the service with such calls.
_LOADER = "device"


class _Details(grpc.ClientCallDetails):
    """The details of a call, as gRPC wants them."""

    def __init__(self, details: Any, timeout_s: float) -> None:
        for name in ("method", "metadata", "credentials", "wait_for_ready", "compression"):
            setattr(self, name, getattr(details, name, None))
        self.timeout = timeout_s


class _Deadline(
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamUnaryClientInterceptor,
):
    """Puts a deadline on each call that goes through it."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s

    def _call(self, go_on: Callable[[Any, Any], Any], details: Any, request: Any) -> Any:
        return go_on(_Details(details, self._timeout_s), request)

    intercept_unary_unary = _call  # pyright: ignore
    intercept_unary_stream = _call  # pyright: ignore
    intercept_stream_unary = _call  # pyright: ignore


def limit_calls(target: Any, timeout_s: float) -> None:
    """Give every call of PYNQ's remote device a deadline.

    Parameters
    ----------
    target : RemoteDevice
        Nothing was allocated through it yet.
    timeout_s : float
        Seconds for one access to registers or memory.
    """
    for name, stub in target._stub.items():
        limit = max(timeout_s, _LOAD_S) if name == _LOADER else timeout_s
        channel = grpc.intercept_channel(target.client.channel, _Deadline(limit))
        target._stub[name] = type(stub)(channel)


def is_gone(error: BaseException | None) -> bool:
    """Whether an error was caused by a board that no longer answers."""
    while error is not None:
        if isinstance(error, grpc.Call):
            return error.code() in (
                grpc.StatusCode.UNAVAILABLE,
                grpc.StatusCode.DEADLINE_EXCEEDED,
            )
        error = error.__cause__ or error.__context__
    return False
