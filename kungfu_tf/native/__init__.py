"""The native libraries: compiled, opened, and their variables of the environment."""
