"""The version of the package and of the core; setup.py and ops/CMakeLists.txt read it from here."""

__version__ = "0.1.0"
