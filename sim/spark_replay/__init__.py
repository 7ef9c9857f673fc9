"""``penstock_replay``, a data source of Spark that plays files as streams, for tests and demos.

See docs/spark/sources.md.
"""
