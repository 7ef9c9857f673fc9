"""A channel between two processes beside one thread's memcpy and beside what others offer."""
