"""Costs of work, counted in rows."""

#: Evaluations of the predicate that take as long as moving one row to its lane.
EVALUATIONS_PER_ROW = 10_000
