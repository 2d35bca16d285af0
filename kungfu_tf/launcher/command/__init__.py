"""The commands, and the event loop of a runner."""
