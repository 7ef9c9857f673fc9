"""The ``remote`` device: devices that a server on this machine owns (``penstock serve``)."""
