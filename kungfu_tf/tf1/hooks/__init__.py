"""Hooks of MonitoredTrainingSession and Estimator."""
