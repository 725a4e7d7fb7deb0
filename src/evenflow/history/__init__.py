"""What happened in a query, read from its control directory while it runs or after it ended."""
