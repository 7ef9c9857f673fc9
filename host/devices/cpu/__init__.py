"""The CPU device, the default: SIMD kernels compiled by Numba."""

from .cpu_device import CpuDevice

__all__ = ["CpuDevice"]
