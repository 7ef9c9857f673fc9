"""A standalone Spark cluster on this machine, from the pip package; see docs/spark-cluster.md.

``child`` is one process with its log, ``standalone`` Spark's master and worker, ``board`` a virtual
board and its device server, ``cluster`` all of them, and ``record`` what lies in a folder about
them.
"""
