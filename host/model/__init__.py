"""Models of a device's work, capacity and latency for a load: paper 1, section 3.5."""
