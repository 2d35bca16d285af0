"""Decisions about the peers of a job, and how each host carries them out."""
