"""The devices that ship with Penstock."""
