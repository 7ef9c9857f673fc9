"""A device behind a server: what goes over the wire, the client and the server."""
