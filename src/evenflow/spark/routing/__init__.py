"""Assigning a worker to every row of a DataFrame."""
