"""The window-join operator: two tuple streams in, joined tuples out, no host in the loop."""
