"""Relations in folders and object stores: immutable Arrow pages, versions committed at once."""
