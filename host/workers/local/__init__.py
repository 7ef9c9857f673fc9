"""Workers on this machine: child processes of the one that opened the stream."""
