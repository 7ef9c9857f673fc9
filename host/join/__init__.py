"""The drivers of joins: tables, streams, steps and parts."""
