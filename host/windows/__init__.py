"""Which tuples meet which, exactly once: feeds, watermark, windows, ranges, expiry."""
