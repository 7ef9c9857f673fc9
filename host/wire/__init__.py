"""Messages between processes of Penstock: addresses, greetings, frames, and who listens."""
