"""From a compiled query to the forms that devices evaluate."""
