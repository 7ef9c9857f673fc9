"""The state of a running join, for people and, in ``exporter``, for Prometheus."""

# Whoever serves metrics imports the exporter: its HTTP server would slow the start of all others.
from .report import LaneReport, Latency, Report

__all__ = ["LaneReport", "Latency", "Report"]
