"""Data sets whose batches and peers change while they are read."""
