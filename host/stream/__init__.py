"""A join of two streams, pushed batch by batch, exact for any batch cut."""

from penstock.host.completeness.source import Span
from penstock.host.stream.flow import Flow
from penstock.host.stream.join import JoinStream

__all__ = ["Flow", "JoinStream", "Span"]
