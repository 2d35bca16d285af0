"""Tensors that another peer has kept."""

from __future__ import annotations

from typing import Any

from kungfu_tf import errors, ops


def request_variable(
    target: Any,
    version: Any = None,
    name: str | None = None,
    shape: Any = None,
    dtype: Any = None,
) -> Any:
    """Returns what rank `target` has saved under a name."""
    if name is None or shape is None or dtype is None:
        raise errors.InvalidArgumentError("request_variable: name, shape and dtype must be given")
    return ops.request_variable(target, name=name, shape=shape, dtype=dtype, version=version)


def request_variable_with_template(target: Any, template: Any, version: Any = None) -> Any:
    """Returns what rank `target` has saved of a variable like this one."""
    return ops.request_variable_with_template(target, template, version=version)
