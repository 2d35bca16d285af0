"""Wraps the updates of optimizers of any generation, and exchanges their gradients."""
