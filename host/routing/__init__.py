"""Key splitting on demand (paper 3): base routing, routing tables, and plans that move keys.

A *lane* is the paper's node, a *key* here is a routing cell; *loads* count the tuples of each.
"""
