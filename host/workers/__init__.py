"""Processes that group one stream together, and begin again together when one of them is lost."""

from .checkpoint import Checkpoint
from .members import Workers

__all__ = ["Checkpoint", "Workers"]
