"""What every kernel is made of: registers, memory ports, and the shell that runs an engine."""
