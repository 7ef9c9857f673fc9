"""What a device must do for a load, what it can do, and when: paper 1, section 3.5."""
