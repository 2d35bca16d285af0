"""Measurements, and their display: statistics, Prometheus, TensorBoard."""
