"""Monitoring of a running query: the control directory and task timing."""
