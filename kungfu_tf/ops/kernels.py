"""Adds an operation of the op library to the program, with the checks that all of them need."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar, cast

import tensorflow as tf
from tensorflow.python.framework.func_graph import FuncGraph
from tensorflow.python.ops import control_flow_util, control_flow_v2_func_graphs

from kungfu_tf import context, errors
from kungfu_tf.native import foreign_job, libraries
from kungfu_tf.ops import alone

_LOOPS = (
    control_flow_v2_func_graphs.WhileBodyFuncGraph,
    control_flow_v2_func_graphs.WhileCondFuncGraph,
)

Function = TypeVar("Function", bound=Callable[..., Any])


def operation(function: Function) -> Function:
    """Decorates an operation of the public interface: AutoGraph must not convert it."""
    return cast(Function, tf.autograph.experimental.do_not_convert(function))


def library() -> ModuleType:
    """The op library. A process that another launcher has started meets the others first."""
    foreign_job.join()
    return libraries.load_ops()


def run(kernel: str, *inputs: Any, tag: str, **attributes: Any) -> Any:
    """Runs a collective, or adds it to the graph, where it may run in parallel with others.

    Args:
        kernel: The function of the op library, e.g. "kungfu_all_reduce".
        *inputs: Its inputs.
        tag: The name by which peers match it.
        **attributes: Its other attributes.

    Returns:
        Its outputs: a tensor, or a tuple of several.
    """
    check_graph(f"{kernel.removeprefix('kungfu_')} '{tag}'")
    if context.current().is_alone:
        return alone.outputs(kernel, inputs, attributes)
    outputs = getattr(library(), kernel)(*inputs, **named(tag), **attributes, **of_group())
    if not tf.executing_eagerly():
        _run_independently(tf.nest.flatten(outputs)[0].op)
    return outputs


def named(tag: str) -> dict[str, Any]:
    """The arguments by which an operation has its name.

    In eager code TensorFlow keeps a kernel for each value of an attribute, for good. So there the
    name is an input, and a program may use any number of names.
    """
    if tf.executing_eagerly():
        return {"tag": "", "eager_name": [tf.constant(tag)]}
    return {"tag": tag, "eager_name": []}


def of_group() -> dict[str, int]:
    """The attributes by which an operation belongs to the group of the surroundings, if to any."""
    group = context.current().group
    return {} if group is None else {"group": group.number}


@dataclasses.dataclass
class Exchange:
    """Operations of one function that end together: all with success, or all with an error.

    Attributes:
        size: How many there are.
        name: The tag of the first one; None until that is made.
    """

    size: int
    name: str | None = None

    @classmethod
    def of(cls, size: int) -> Exchange | None:
        """An exchange of so many operations where all of them are sure to run; else None.

        In eager code each ends before the next begins, and a session of TF1 may run some of them.
        """
        in_function = not tf.executing_eagerly()
        if size < 2 or not in_function or _dependencies(tf.compat.v1.get_default_graph()) is None:
            return None
        return cls(size)


def exchange_of(exchange: Exchange | None, tag: str) -> dict[str, Any]:
    """The attributes by which an operation with this tag belongs to an exchange, if to any."""
    if exchange is None or context.current().group is not None:
        return {}
    exchange.name = exchange.name or tag
    return {"exchange": exchange.name, "exchange_size": exchange.size}


def check_graph(what: str) -> None:
    """Makes sure that a collective can run where the program is now.

    Args:
        what: The operation, for the message.

    Raises:
        UnimplementedError: If XLA compiles this function.
        InvalidArgumentError: If this is a loop that may run its iterations in any order.
    """
    if tf.executing_eagerly():
        return
    graph = tf.compat.v1.get_default_graph()
    if control_flow_util.GraphOrParentsInXlaContext(graph):
        message = (
            f"{what} is in a function that XLA compiles, which has no collectives of kungfu_tf: "
            "give jit_compile=False to model.compile or tf.function"
        )
        raise errors.UnimplementedError(errors.linked("xla", message))
    _check_loops(graph, what)


def _check_loops(graph: Any, what: str) -> None:
    context = graph._get_control_flow_context()
    while context is not None:
        if context.IsWhileContext() and context.parallel_iterations != 1:
            message = (
                f"{what} is in a while_loop that may run its iterations in any order: give it "
                "parallel_iterations=1"
            )
            raise errors.InvalidArgumentError(errors.linked("while-loop", message))
        context = context.outer_context
    while getattr(graph, "is_control_flow_graph", False):
        if isinstance(graph, _LOOPS) and _dependencies(graph) is None:
            message = (
                f"{what} is in a while_loop of a TF1 graph with TF2 control flow, which may run "
                "its iterations in any order: put the loop into a tf.function, or call "
                "tf.compat.v1.disable_control_flow_v2() and give it parallel_iterations=1"
            )
            raise errors.InvalidArgumentError(errors.linked("while-loop", message))
        graph = graph.outer_graph


def _run_independently(operation: Any) -> None:
    # Without this the stateful operations of a function run one after the other. They still end
    # with the call, before the next call begins. So if a step calls a function twice, all peers run
    # the operations of the two calls in the same order.
    graph = operation.graph
    dependencies = _dependencies(graph)
    if dependencies is not None:
        dependencies.run_independently(operation)
    elif isinstance(graph, FuncGraph):  # of a gradient, which orders nothing
        graph.control_outputs.append(operation)


def _dependencies(graph: Any) -> Any:
    """Returns the object that orders stateful operations of `graph`; None in a TF1 graph."""
    return getattr(graph, "experimental_acd_manager", None)
