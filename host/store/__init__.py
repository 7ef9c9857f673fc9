"""Files by name in a folder or an object store: each there as a whole or not at all."""
