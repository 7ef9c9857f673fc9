"""A device behind a server: wire format, client and server."""
