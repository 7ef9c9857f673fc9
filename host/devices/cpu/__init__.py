"""The CPU device: SIMD kernels compiled by Numba, and the default where nothing else is at hand."""

from .device import CpuDevice

__all__ = ["CpuDevice"]
