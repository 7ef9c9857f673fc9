"""What a running join does, for people and for Prometheus."""

from penstock.host.metrics.exporter import MetricsServer, serve_metrics
from penstock.host.metrics.latency import Latency
from penstock.host.metrics.report import LaneReport, Report

__all__ = ["LaneReport", "Latency", "MetricsServer", "Report", "serve_metrics"]
