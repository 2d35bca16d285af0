"""What KungFu called experimental."""
