"""The state of a running join, for people and for Prometheus."""

from .exporter import MetricsServer, serve_metrics
from .report import LaneReport, Latency, Report

__all__ = ["LaneReport", "Latency", "MetricsServer", "Report", "serve_metrics"]
