"""Rows of a source as they are taken in, before workers fold or join them."""
