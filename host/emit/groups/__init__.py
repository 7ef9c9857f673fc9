"""From matches to groups: which rows belong together, their aggregates, when they are complete."""
