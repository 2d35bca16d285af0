"""The state that all peers have in common: made equal, checked, averaged, weighed."""
