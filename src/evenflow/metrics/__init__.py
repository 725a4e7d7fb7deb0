"""Metrics of running queries in the format of Prometheus."""
