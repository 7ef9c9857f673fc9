"""The protocol of a server of devices and its clients; both sides import it."""
