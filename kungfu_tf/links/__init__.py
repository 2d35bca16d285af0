"""Connections of processes that prove to each other that they know a job's secret."""
