"""Prepared keys: what of a row a device compares, and in how many bits."""
