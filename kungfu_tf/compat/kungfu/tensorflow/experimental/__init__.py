"""KungFu's experimental modules."""
