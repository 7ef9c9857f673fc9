"""Run with ``python -m penstock.sim.workloads``."""

from .cli import run

run()
