"""Stores that a relation could lie in, beside the folder of pages that it lies in."""
