"""Optimizers of Keras 3 that have the slots of some variables only, and update those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kungfu_tf import context, errors, groups, peer
from kungfu_tf.exchange.shards import Shards
from kungfu_tf.replicas import local_variables
from kungfu_tf.upstream import generations

_OF_ALL = "gradient_accumulator"  # a slot of each peer's own gradients


class Keras3Shards(generations.Base):
    """Mixed into the class of an optimizer of Keras 3 before it is wrapped.

    Its algorithm has `shards`, and `begin`, which is called before updates. A saved optimizer is
    the plain one, with all slots.
    """

    def build(self, variables: Sequence[Any]) -> None:
        """Keras' method, which creates the slots."""
        if self.built:
            return
        shards, before = self.kungfu_shards, len(self.variables)
        of_all = context.within(is_alone=False)  # also where a step is tried alone before
        with of_all, groups.among(self.kungfu_algorithm.group):
            shards.deal(variables)
        shards.is_building = True
        super().build(variables)
        shards.is_building = False
        self._kungfu_refuse_others(self.variables[before:])

    def add_variable_from_reference(
        self, reference_variable: Any, name: Any = None, initializer: Any = "zeros"
    ) -> Any:
        """Keras' method, which creates a slot. It is empty if it is another peer's."""
        make = super().add_variable_from_reference
        if name == _OF_ALL or local_variables.is_local(reference_variable):
            made = make(reference_variable, name=name, initializer=initializer)
            self.kungfu_shards.own.add(id(made))
            return made
        with self.kungfu_shards.slot_of(reference_variable) as note:
            return note(make(reference_variable, name=name, initializer=initializer))

    def add_variable(self, shape: Any, *args: Any, **kwargs: Any) -> Any:
        """Keras' method, by which the one above makes a slot."""
        return super().add_variable(self.kungfu_shards.shape(shape), *args, **kwargs)

    def assign(self, variable: Any, value: Any) -> None:
        """Keras' method. Slots begin with what their initializers say."""
        if self.kungfu_shards.is_building and self.kungfu_shards.is_slot(variable):
            raise errors.UnimplementedError(
                f"{self.kungfu_shards.title}: {type(self).__name__} makes slots out of weights, "
                f"which peers may still have to get: {variable.path}. Take SynchronousSGDOptimizer"
            )
        super().assign(variable, value)

    def _backend_apply_gradients(self, grads: Any, trainable_variables: Any) -> None:
        self.kungfu_algorithm.begin()
        super()._backend_apply_gradients(grads, trainable_variables)

    def _apply_weight_decay(self, variables: Sequence[Any]) -> None:
        super()._apply_weight_decay(list(filter(self.kungfu_shards.is_mine, variables)))

    def _backend_update_step(
        self, grads: Any, trainable_variables: Any, learning_rate: Any
    ) -> None:
        pairs = zip(grads, trainable_variables, strict=True)
        mine = [(g, v) for g, v in pairs if self.kungfu_shards.is_mine(v)]
        super()._backend_update_step([g for g, _ in mine], [v for _, v in mine], learning_rate)

    def save_own_variables(self, store: Any) -> None:
        """Keras' method. It writes whole slots.

        Raises:
            FailedPreconditionError: If this peer does not have them.
        """
        shards = self.kungfu_shards
        for i, variable in enumerate(self.variables):
            is_slot = shards.is_slot(variable)
            store[str(i)] = shards.whole(variable) if is_slot else variable.numpy()

    def load_own_variables(self, store: Any) -> None:
        """Keras' method. It takes this peer's part of whole slots."""
        variables = self.variables
        if len(store.keys()) != len(variables):
            super().load_own_variables(store)  # which says so
            return
        values = {id(v): np.asarray(store[str(i)]) for i, v in enumerate(variables)}
        for variable in variables:
            if not self.kungfu_shards.is_slot(variable):
                variable.assign(values.pop(id(variable)))
        self.kungfu_shards.put(values)

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> Any:
        """TensorFlow's method, which finds what a tf.train.Checkpoint saves."""
        if save_type == "checkpoint" and not peer.is_single_process():
            raise errors.UnimplementedError(
                f"{self.kungfu_shards.title}: a tf.train.Checkpoint would have this peer's slots "
                "only. Leave the optimizer out of it; or save a file of Keras, right after "
                "optimizer.kungfu_algorithm.share_state() on every peer"
            )
        return super()._trackable_children(save_type, **kwargs)

    def kungfu_reshard(self) -> None:
        """Makes a shard of slots that are whole, because the optimizer was built before."""
        values = {str(i): variable.numpy() for i, variable in enumerate(self.variables)}
        slots = {id(v) for v in self.variables}
        slots -= {id(v) for v in (self._iterations, self._learning_rate)}
        self._variables[:] = [v for v in self.variables if id(v) not in slots]
        trained, self.built = self._trainable_variables, False
        self._trainable_variables_indices.clear()
        self.build(trained)
        self.load_own_variables(values)

    @property
    def kungfu_shards(self) -> Shards:
        """The owners of its variables."""
        shards: Shards = self.kungfu_algorithm.shards
        return shards

    def _kungfu_refuse_others(self, created: Sequence[Any]) -> None:
        shards = self.kungfu_shards
        unknown = (v for v in created if not shards.is_slot(v) and id(v) not in shards.own)
        others = [v for v in unknown if len(v.shape)]
        if others:
            raise errors.UnimplementedError(
                f"{shards.title}: {type(self).__name__} has state that is not one slot of a "
                f"variable, of its shape: {others[0].path}. Take SynchronousSGDOptimizer"
            )
