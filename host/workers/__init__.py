"""Streams on several worker processes, which all restart when one is lost (paper 2)."""

from .checkpoint import Checkpoint
from .members import Workers

__all__ = ["Checkpoint", "Workers"]
