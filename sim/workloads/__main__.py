"""Run with ``python -m penstock.sim.workloads``."""

from penstock.sim.workloads.cli import run

run()
