"""Makes groups of matches: their rows, their aggregates, and when they are complete."""
