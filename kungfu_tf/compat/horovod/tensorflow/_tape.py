"""Horovod's tape."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from horovod.common.process_sets import included
from horovod.tensorflow._exchange import Options, exchanged

from kungfu_tf import context
from kungfu_tf.exchange import union
from kungfu_tf.exchange.tape import DistributedGradientTape
from kungfu_tf.replicas import local_variables

__all__ = ["Tape"]


class Tape(DistributedGradientTape):
    """A tape whose gradients are those of all processes.

    Args:
        tape: The tape.
        wanted: What to do with gradients.
    """

    def __init__(self, tape: tf.GradientTape, wanted: Options) -> None:
        super().__init__(tape, group=wanted.group)
        self._wanted = wanted

    def register_local_source(self, source: Any) -> None:
        """Lets each process keep its own value of a variable."""
        local_variables.mark(source, self._wanted.scale_of_local)

    @tf.autograph.experimental.do_not_convert
    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        use_generic_names: bool = False,
    ) -> Any:
        """The gradients of all processes."""
        del use_generic_names
        return super().gradient(target, sources, output_gradients)

    def get_local_and_global_gradients(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        use_generic_names: bool = False,
    ) -> tuple[list[Any], list[Any]]:
        """Pairs of a variable and its gradient: of the local variables, and of the others."""
        gradients = self.gradient(target, sources, output_gradients, use_generic_names)
        pairs = list(zip(sources, gradients, strict=True))
        local = [pair for pair in pairs if local_variables.is_local(pair[0])]
        return local, [pair for pair in pairs if not local_variables.is_local(pair[0])]

    def _means(self, gradients: list[Any], variables: list[Any]) -> list[Any]:
        if context.current().is_private or not included(self._wanted.process_set):
            return gradients
        gradients = union.completed(gradients, variables, name="tape")
        return exchanged(gradients, variables, self._wanted)
