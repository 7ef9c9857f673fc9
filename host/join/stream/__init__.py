"""Joins of two streams, pushed batch by batch, exact for any batch cut."""

from ...windows.source import Span
from .flow import Flow
from .join import JoinStream

__all__ = ["Flow", "JoinStream", "Span"]
