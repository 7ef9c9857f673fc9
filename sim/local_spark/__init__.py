"""Spark on this machine, from pip packages alone: a session, or a standalone cluster.

``local_session`` starts Spark in this process. For a cluster, ``child`` is one process with its
log, ``standalone`` Spark's master and worker, ``board`` a virtual board and its device server,
``cluster`` all of them, and ``cluster_record`` a folder's note about them; see
docs/spark/cluster.md.
"""
