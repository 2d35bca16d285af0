"""What all peers hold in common: equal at first, seen to be equal, averaged, weighed."""
