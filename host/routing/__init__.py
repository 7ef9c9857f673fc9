"""Which lane gets which keys: loads, base routing, routing tables, and plans that balance them."""
