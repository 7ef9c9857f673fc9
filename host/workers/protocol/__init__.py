"""What workers and their parent say to each other: pure state machines, events in, messages out.

Nothing here waits, sends, reads a clock, or starts a thread or a process, so that a model checker
can run the very code that workers run. Modules: ``border`` (the state that a worker folds into),
``messages``, ``coding`` (their bytes), ``clock`` (promises and the vector clock), ``epochs``
(deltas in order), ``marks``, ``worker``; ``ledger`` (what is dealt, and dealt again), ``commit``
(what a checkpoint consists of), ``numbers`` (rows under the number of their record), ``parent``.
"""
