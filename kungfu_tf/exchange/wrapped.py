"""The common part of the wrappers of all generations of optimizers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import tensorflow as tf

from kungfu_tf import context, errors, groups, peer
from kungfu_tf.context import trained_variables
from kungfu_tf.context.meets import Meets
from kungfu_tf.exchange import union, whole_step
from kungfu_tf.exchange.algorithm import Algorithm
from kungfu_tf.exchange.finite import all_finite_or_none
from kungfu_tf.exchange.state import State, state_of
from kungfu_tf.replicas import gates, local_variables, sample_weights
from kungfu_tf.upstream import generations
from kungfu_tf.upstream.warn import warn
from kungfu_tf.verification import exchanges, unverified


class Wrapped(generations.Base):
    """Mixed into the class of a wrapped optimizer, before the user's class.

    The instance and its state are the user's. We add `kungfu_state`. An optimizer that is made from
    the class (`from_config`) gets an algorithm of its own.
    """

    kungfu_make_algorithm: ClassVar[Callable[[], Algorithm]]
    kungfu_sums_rows: ClassVar[bool] = True

    @property
    def kungfu_algorithm(self) -> Algorithm:
        """The algorithm around its updates."""
        state = self.kungfu_state
        if state.algorithm is None:
            algorithm = type(self).kungfu_make_algorithm()
            vars(algorithm)["optimizer_variables"] = self._kungfu_shared_variables
            vars(algorithm)["optimizer_step"] = self._kungfu_step
            vars(algorithm)["_sums_rows"] = self.kungfu_sums_rows
            state.algorithm = algorithm
        return state.algorithm

    def _kungfu_shared_variables(self) -> list[Any]:
        """The optimizer's variables, without slots of variables that are each peer's own."""
        state = generations.shared_variables_of(self)
        return local_variables.shared(state, self.kungfu_state.local_variables)

    @property
    def kungfu_state(self) -> State:
        """The state of the wrapper."""
        return state_of(self)

    def _kungfu_step(self) -> Any:
        with tf.init_scope():  # a legacy optimizer may have to create it
            return getattr(self, "iterations", None)

    def _kungfu_completed(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """The gradients, with zeros for those that only other peers have.

        So all peers update the same variables. It comes before Keras leaves out variables without a
        gradient.
        """
        refuse_replicas()
        if context.current().is_private:
            return list(gradients)
        algorithm = self.kungfu_algorithm
        complete = functools.partial(
            union.completed, name=algorithm.name, compression=algorithm.compression
        )
        with groups.among(algorithm.group):
            return local_variables.of_shared(gradients, variables, complete)

    @tf.autograph.experimental.do_not_convert
    def _kungfu_exchange(
        self, gradients: Sequence[Any], variables: Sequence[Any], step: Any = None
    ) -> list[Any]:
        """The algorithm's gradients in place of these. Every generation's wrapper calls it.

        In a TF1 graph the exchange waits behind a gate, until all peers have a batch. If a loss
        scale looks at the result, all peers find the same in it.
        """
        refuse_replicas()
        exchanged = self._kungfu_ask_algorithm(gradients, variables, step)
        if (note := context.current().note_gradients) is not None:
            return list(note(variables, exchanged, unverified.why_not(self.kungfu_algorithm)))
        keeps_equal = self.kungfu_algorithm.keeps_equal
        unverified.note(variables, keeps_equal=keeps_equal)
        exchanges.note(variables, gradients, exchanged, keeps_equal=keeps_equal)
        return exchanged

    def _kungfu_ask_algorithm(
        self, gradients: Sequence[Any], variables: Sequence[Any], step: Any
    ) -> list[Any]:
        if context.current().is_private:
            return list(gradients)
        algorithm = self.kungfu_algorithm
        is_own = algorithm.applies_own_gradients
        if type(algorithm).gradients is Algorithm.gradients:
            own = sample_weights.of_samples(gradients)
            scaled = local_variables.exchanged(own, variables, lambda g, v: g, is_own=is_own)
            return self._kungfu_finite(scaled)
        self._kungfu_warn_if_unknown()
        group = algorithm.group  # its peers do not wait for data of others
        with gates.before(gradients) if group is None else groups.among(group):
            exchanged = local_variables.exchanged(
                gradients,
                variables,
                lambda g, v: algorithm.gradients(g, v, step=step),
                is_own=is_own,
            )
            return self._kungfu_finite(exchanged)

    def _kungfu_finite(self, gradients: list[Any]) -> list[Any]:
        """The gradients, such that a loss scale takes the same decision on all peers.

        Means are equal on all peers, and lead to equal decisions. An algorithm whose peers differ
        returns each peer's own gradients: if one peer's are not finite, all get NaN. Peers that do
        not meet in every step decide for themselves.
        """
        algorithm = self.kungfu_algorithm
        is_own = algorithm.meets is Meets.EVERY_STEP and not algorithm.keeps_equal
        if not self.kungfu_state.is_scaled or not is_own or peer.is_single_process():
            return gradients
        return all_finite_or_none(gradients, f"{algorithm.name}/all_finite")

    def _kungfu_warn_if_unknown(self) -> None:
        """Warns once if `fit` has not found this optimizer in its model."""
        fit = context.current().fit
        if fit is None or fit.is_shared or self.kungfu_state.has_warned:
            return
        self.kungfu_state.has_warned = True
        if peer.is_root():
            warn(
                f"fit does not know that {type(fit.model).__name__} is trained by a wrapped "
                f"optimizer ({type(self).__name__}): the peers do not start from equal weights, "
                "and nobody compares them. Make the optimizer an attribute of the model, also in a "
                "list or a dict, or give fit a "
                "kungfu_tf.callbacks.BroadcastGlobalVariablesCallback()"
            )

    def _kungfu_update(
        self, gradients: Sequence[Any], variables: Sequence[Any], update: Callable[[], Any]
    ) -> Any:
        """Calls `update`, which applies `gradients`, between the algorithm's methods."""
        if context.current().is_private:
            return update()
        with groups.among(self.kungfu_algorithm.group):
            return self._kungfu_between_methods(gradients, variables, update)

    def _kungfu_between_methods(
        self, gradients: Sequence[Any], variables: Sequence[Any], update: Callable[[], Any]
    ) -> Any:
        algorithm = self.kungfu_algorithm
        of_all = [v for v in variables if not local_variables.is_local(v)]
        self.kungfu_state.local_variables = list(filter(local_variables.is_local, variables))
        if tf.compat.v1.executing_eagerly_outside_functions():
            algorithm.before_update(of_all)
            result = update()
            algorithm.after_update(of_all)
            return result
        trained_variables.add(tf.compat.v1.get_default_graph(), algorithm, of_all)
        # In a TF1 graph the order of the program says nothing. Each update is a step.
        exchanged = whole_step.exchanged_of(variables)
        given = [_operation(g) for g in gradients if g is not None]
        with tf.control_dependencies(given):
            begun = list(map(_operation, algorithm.before_step(exchanged)))
        with tf.control_dependencies([*given, *begun]):
            before = [*begun, *map(_operation, algorithm.before_update(of_all))]
        with tf.control_dependencies(before):
            result = update()
        with tf.control_dependencies([_operation(result)]):
            after = list(map(_operation, algorithm.after_update(of_all)))
        with tf.control_dependencies([_operation(result), *after]):
            after += map(_operation, algorithm.after_step(exchanged))
        return tf.group(result, *after) if after else result


class WrappedInside(generations.Base):
    """Mixed into the class of an optimizer that leaves updates to wrapped ones inside it.

    An optimizer that is made from the class (`from_config`) has a wrapped one inside, too.
    """

    kungfu_wrap: ClassVar[Callable[[Any], Any]]

    @classmethod
    def from_config(cls, *args: Any, **kwargs: Any) -> Any:
        """Keras' method, which makes the optimizer inside from its name."""
        optimizer = super().from_config(*args, **kwargs)
        return optimizer if generations.is_wrapped(optimizer) else cls.kungfu_wrap(optimizer)


def refuse_replicas() -> None:
    """Raises if `tf.distribute` runs several replicas in this process.

    All of them would take part as this one peer. A strategy with one replica, as `MirroredStrategy`
    on one device, changes nothing.

    Raises:
        UnimplementedError: If there are several replicas.
    """
    strategy = tf.distribute.get_strategy()
    if strategy.num_replicas_in_sync > 1 and not peer.is_single_process():
        raise errors.UnimplementedError(
            f"{type(strategy).__name__} runs {strategy.num_replicas_in_sync} replicas in this "
            "process, and a wrapped optimizer averages over processes: leave tf.distribute away "
            "and start one process for each device, as kungfu-run -np does"
        )


def _operation(node: Any) -> Any:
    """The operation behind a tensor, IndexedSlices, or what `assign` returned.

    `tf.control_dependencies` takes a variable for its handle: it would not wait for the assignment.
    """
    return node if isinstance(node, tf.Operation) else node.op
