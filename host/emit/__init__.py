"""From pairs of positions to output rows: restoration, order, batches that are complete."""
