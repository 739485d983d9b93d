"""A study of our own: how far results move with the precision of the arithmetic."""
