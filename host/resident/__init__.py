"""Windows of blocks that never change, prepared and loaded once for many joins."""
