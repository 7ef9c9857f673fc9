"""The CPU device: SIMD kernels compiled by Numba, and the default where nothing else is at hand."""

from penstock.host.device.cpu.device import CpuDevice

__all__ = ["CpuDevice"]
