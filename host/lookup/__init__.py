"""Look-ups in a relation (paper 5): choose pages to read for waiting rows, and rows to keep."""
