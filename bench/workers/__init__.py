"""Groups of streams on workers, beside hand-written loops and other engines."""
