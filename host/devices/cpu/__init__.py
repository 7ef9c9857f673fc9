"""The CPU device, the default: SIMD kernels compiled by Numba."""

from .device import CpuDevice

__all__ = ["CpuDevice"]
