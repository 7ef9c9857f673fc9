"""The state of a running join, for people and for Prometheus."""

from .exporter import MetricsServer, serve_metrics
from .latency import Latency
from .report import LaneReport, Report

__all__ = ["LaneReport", "Latency", "MetricsServer", "Report", "serve_metrics"]
