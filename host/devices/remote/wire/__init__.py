"""What a server of devices and its clients say to each other; both sides import it."""
