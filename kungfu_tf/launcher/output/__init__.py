"""What the peers print, and what is said of their end."""
