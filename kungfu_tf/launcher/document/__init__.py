"""The cluster document, by which others say how many peers a job is to have."""
