"""What BlueFog has for all frameworks."""
