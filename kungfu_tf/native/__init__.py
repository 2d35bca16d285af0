"""The native libraries: compiling and opening them, and their environment variables."""
