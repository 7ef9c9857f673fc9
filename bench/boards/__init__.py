"""What fits on each board, how fast it would be there, and what it would take for an evaluation."""
