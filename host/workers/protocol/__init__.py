"""Protocol of workers and their parent: pure state machines, events in, messages out.

Nothing here waits, sends, reads a clock, or starts a thread or a process, so that a model checker
can run the very code that workers run. Modules: ``border`` (the state that a worker folds into),
``messages``, ``coding`` (their bytes), ``clock`` (promises and the vector clock), ``epochs``
(deltas in order), ``marks``, ``steps`` (triggers), ``worker`` (helper and leader); ``ledger``
(messages to deal, and to deal again), ``commit`` (content of a checkpoint), ``parent``.
"""
