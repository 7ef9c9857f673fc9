"""What boards offer: the one table that sizes, exports and board builds read."""
