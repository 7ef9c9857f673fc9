"""A page that shows running joins, live; a process of its own draws and serves it."""
