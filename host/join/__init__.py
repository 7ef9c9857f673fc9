"""Drivers of joins: of tables, of streams, in steps, and in parts."""
