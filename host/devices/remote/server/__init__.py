"""``penstock serve``: a process that owns devices and runs other processes' tasks on them."""
