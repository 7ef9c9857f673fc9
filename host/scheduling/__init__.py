"""When waiting tuples become tasks, and which lane runs each: pure state machines."""
