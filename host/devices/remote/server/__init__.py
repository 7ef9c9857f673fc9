"""``penstock serve``: one process owns devices, others on the machine run tasks on them."""
