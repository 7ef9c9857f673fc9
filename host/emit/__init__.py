"""Makes output rows of pairs of positions: restoration, order, complete batches."""
