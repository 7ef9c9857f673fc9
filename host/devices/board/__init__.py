"""Kernels on a board, driven through PYNQ."""
