"""The cluster document, by which others ask for a number of peers."""
