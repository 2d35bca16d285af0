"""What the running code is part of: the fit, the state and variables of a graph, common numbers."""
