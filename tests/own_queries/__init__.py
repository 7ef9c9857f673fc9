"""Random queries written from the documents alone, with an evaluator of their own."""
