"""Prepared keys: the values of a row that a device compares, and their widths."""
