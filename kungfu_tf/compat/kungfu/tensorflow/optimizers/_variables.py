"""What the optimizers have in common."""

from __future__ import annotations

from typing import Any

__all__ = ["with_callable_variables"]


class _Variables(list[Any]):
    """Variables that are asked for as `optimizer.variables`, and as `optimizer.variables()`."""

    def __call__(self) -> _Variables:
        return self


def with_callable_variables(optimizer: Any) -> Any:
    """Keras 3 has a property where there was a method, and programs broadcast its result."""
    cls = type(optimizer)  # made for this optimizer
    theirs: Any = cls.variables
    if isinstance(theirs, property):
        cls.variables = property(lambda self: _Variables(theirs.__get__(self)))
    return optimizer
