"""Readers of data sets' files."""
