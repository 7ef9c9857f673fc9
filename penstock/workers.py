"""Engines that place the workers of a stream: ``penstock.stream(..., workers=...)``."""

from __future__ import annotations

from penstock.host.workers.members import Workers
from penstock.host.workers.mpi import MpiWorkers, mpi
from penstock.host.workers.results import PolledPart

__all__ = ["MpiWorkers", "PolledPart", "Workers", "mpi"]
