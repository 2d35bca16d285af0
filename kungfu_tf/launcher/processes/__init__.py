"""The peers as processes of one host: their environment, their start, their end."""
