"""Joins: what the two sides are joined on, where their rows go, and rows that found no match."""
