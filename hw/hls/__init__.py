"""High-level synthesis: from a predicate's DAG to pipeline stages to logic of exact widths.

:func:`~penstock.hw.hls.check.refusal` says what cannot be built,
:func:`~penstock.hw.hls.lower.lower` rewrites what hardware has no operator for,
:func:`~penstock.hw.hls.schedule.schedule` cuts the DAG into stages, and
:class:`~penstock.hw.hls.datapath.Datapath` is the pipeline.
"""
