"""The output of the peers, and messages about their end."""
