"""Parameter servers: each peer serves some variables, and updates them when gradients arrive."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from kungfu_tf import context, errors, ops, peer
from kungfu_tf.context.meets import Meets
from kungfu_tf.exchange.algorithm import Algorithm
from kungfu_tf.exchange.keras3_served import Keras3Served
from kungfu_tf.exchange.parameter_server import (
    ParameterServer,
    Way,
    Word,
    applied_of,
    weights_of,
)
from kungfu_tf.exchange.parcel import Parcel
from kungfu_tf.exchange.schedule import check_steps
from kungfu_tf.exchange.shards import Shards
from kungfu_tf.ops import store
from kungfu_tf.optimizers.sharded import ShardedOptimizer, wrap_in_shards
from kungfu_tf.replicas import local_variables

Optimizer = TypeVar("Optimizer")
Update = Callable[[Sequence[Any], Sequence[Any]], None]

_NAME = "ParameterServerOptimizer"


class ParameterServers(Algorithm):
    """v ← update(v, g) on the owner of v, when some peer's g arrives there.

    Args:
        staleness: How many steps a peer may be ahead of another; None: any number.
    """

    meets = Meets.NEVER
    is_sharded = True
    has_own_state = True

    def __init__(self, staleness: int | None) -> None:
        self.shards = Shards(_NAME)
        self.staleness = staleness
        self._parts: dict[int, list[Any]] = {}  # by owner: what it serves, `tf.Variable`s
        self._update: Update | None = None
        self._server: ParameterServer | None = None
        self._has_begun = False
        self._is_running = False
        self._is_resting = False
        self._step = 0  # of this peer

    def before_training(self) -> None:
        """Raises an error if one has ended an earlier training: its pushes may be on their way."""
        if self._is_running:
            raise errors.FailedPreconditionError(
                f"{_NAME}: the training before was not finished. Wrap a new optimizer; or, if that "
                "was a loop of your own, call optimizer.kungfu_algorithm.finish() on all peers"
            )

    def build(self, variables: Sequence[Any]) -> None:
        """Gives each peer its slots, if one has loaded the optimizer, and starts the server.

        So a peer serves from the beginning, even one that has no batches.
        """
        del variables
        self._has_begun = True
        if not peer.is_single_process():
            self.shards.scatter(name=f"{self.name}/slots")
            self._start()

    def deal(self, variables: Sequence[Any], update: Update) -> None:
        """Sorts the variables by their owners.

        Args:
            variables: All that the optimizer trains, `tf.Variable`s.
            update: Makes an update of variables of this peer from their gradients.
        """
        if any(map(local_variables.is_local, variables)):
            raise errors.UnimplementedError(
                f"{_NAME}: kungfu_tf.layers.local cannot be, unless staleness is 0"
            )
        self._update, self._parts = update, {}
        for variable in variables:
            self._parts.setdefault(self.shards.owner_of(variable), []).append(variable)

    def begin(self) -> None:
        """Does nothing: `exchange` comes before an owner's updates."""

    def exchange(self, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        """Pushes this peer's gradients to the owners, and pulls what these have made so far.

        Args:
            gradients: Tensors, `tf.IndexedSlices` or None.
            variables: The variables that they belong to, `tf.Variable`s.

        Raises:
            UnimplementedError: If they are not those of `deal`, or one has no gradient.
        """
        pairs = zip(gradients, variables, strict=True)
        given = {v.ref(): g for g, v in pairs if g is not None}
        missing = [v for part in self._parts.values() for v in part if v.ref() not in given]
        if missing:
            raise errors.UnimplementedError(
                f"{_NAME}: a step has no gradient of {missing[0].name!r}, which the optimizer was "
                "built with: each push is of all variables. Leave it out of the trainable ones, or "
                "wrap an optimizer for each part of the model"
            )
        if not self._has_begun and not context.current().is_rehearsal:
            with tf.init_scope():
                self.build([])
        parcels = {
            owner: Parcel(part).pack([given[v.ref()] for v in part])
            for owner, part in self._parts.items()
        }
        rows = [row for parcel in parcels.values() for row in parcel.values()]
        # Where the data end, a traced step fails after it has done what needs no gradients.
        with tf.control_dependencies([*self.shards.check_peers(), *rows]):
            step = self._begun()
        with tf.control_dependencies([step]):
            for owner, parcel in parcels.items():
                way = Way(self._title, peer.rank(), owner)
                way.say(Word.PUSH)
                for dtype, row in parcel.items():
                    way.rows(dtype).put(row)
            self._pull(step)

    def share_state(self) -> None:
        """Gives rank 0 all slots, in the memory of its host, to be saved."""
        if not peer.is_single_process():
            self.settle()
            self.shards.gather(name=f"{self.name}/slots")

    def rest(self) -> None:
        """Tells the owners that this peer pushes nothing before the next meeting."""
        if self._is_running and not self._is_resting:
            self._say(Word.REST)
            self._is_resting = True

    def settle(self) -> None:
        """A meeting: waits until the owners have applied all that was pushed."""
        if not self._is_running:
            return
        self.rest()
        steps = ops.all_gather(np.array([self._step], np.int64), name=f"{self.name}/steps")
        self._step = int(np.max(steps))
        if self._server is not None:
            self._server.settle()
            self._server.begin_anew(self._step)
        peer.barrier(name=f"{self.name}/settled")
        self._is_resting = False

    def finish(self) -> None:
        """Waits until all that was pushed has been applied, and stops the servers."""
        if peer.is_single_process() or not self._is_running:
            return
        self.settle()
        self._say(Word.END)
        if self._server is not None:
            self._server.join()
        store.forget(f"{self._title}/")
        self._server, self._is_running, self._step = None, False, 0
        peer.barrier(name=f"{self.name}/finish")  # before anybody begins anew

    def evaluated(self, variable: Any) -> Any:
        """What its owner has."""
        if peer.is_single_process():
            return None
        owner = self.shards.owner_of(variable)
        return ops.broadcast(variable.read_value(), root=owner, name=f"{self.name}/newest")

    @property
    def _title(self) -> str:
        return f"{self.name}/parameters"

    def _begun(self) -> Any:
        """The number of this step, from 1, an int64 scalar; the server runs then."""
        if tf.executing_eagerly():
            return tf.constant(self._begin_step(), tf.int64)
        return tf.ensure_shape(tf.py_function(self._begin_step, [], tf.int64), [])

    def _begin_step(self) -> int:
        self._start()
        self.shards.drop()
        if self._server is not None:
            self._server.check()
        if self._is_resting:
            raise errors.FailedPreconditionError(
                f"{_NAME}: a step between the end of an epoch and the meeting of all peers"
            )
        self._step += 1
        return self._step

    def _say(self, word: Word) -> None:
        for owner in self._parts:
            Way(self._title, peer.rank(), owner).say(word)

    def _start(self) -> None:
        """Starts the server, unless it runs, or this peer owns nothing."""
        if self._is_running:
            return
        self._is_running = True
        update, mine = self._update, self._parts.get(peer.rank())
        if mine and update is not None:
            apply = lambda gradients: update(gradients, mine)  # noqa: E731
            self._server = ParameterServer(self._title, mine, apply, self.staleness)
            self._server.start()

    def _pull(self, step: Any) -> None:
        """Takes the newest variables of all owners, which send them at the same time.

        They have applied this step's push then, so only steps of others lie between the weights of
        a gradient and its update.
        """
        number = tf.TensorSpec([], tf.int64)
        others = {rank: part for rank, part in self._parts.items() if rank != peer.rank()}
        awaited = [applied_of(self._title, peer.rank())]
        if self.staleness is not None:
            awaited.append(f"{self._title}/clock")
        for tag in awaited:
            for owner in self._parts:
                store.request_group(owner, [number], tag, step)
        arriving = []
        for owner, part in others.items():
            for dtype, places in Parcel(part).places.items():
                specs = [tf.TensorSpec(part[i].shape, dtype) for i in places]
                tag = weights_of(self._title, owner, dtype)
                store.prefetch(owner, specs, tag, wait=True)
                arriving.append((tag, [part[i] for i in places]))
        for tag, variables in arriving:
            values, _ = store.prefetched([v.read_value() for v in variables], tag)
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)


def ParameterServerOptimizer(  # noqa: N802 (as the other optimizers)
    optimizer: Optimizer, *, staleness: int | None = None
) -> Optimizer:
    """Lets each peer serve some variables to all, and update them when gradients arrive.

    ```
    g ← gradient of this peer's batch, at its copy of v
    push g to the owners of the variables
    v ← update(v, g)        # on the owner, when g arrives: one update for each push
    v ← newest v of the owners, which have applied g
    ```

    This is asynchronous training as with `ps` tasks of TensorFlow, without processes that only
    serve. Whole variables are dealt to the peers, the largest first. An owner has their slots: at
    most 1/size of all, and those of one variable more. It applies what arrives while its own step
    computes. A step ends when the owners have applied its own push. So no peer waits for another
    one's step.

    Each peer's gradient makes an update of its own. So there are `size` times as many updates as
    with `SynchronousSGDOptimizer`, with gradients of one peer's batch each, and some are computed
    at weights that others have changed since. Use the learning rate of one peer, or less. Schedules
    count the updates of an owner.

    `staleness` bounds how far the peers may be apart. Before a peer begins step c + 1, each peer
    has made c − `staleness` steps, and the owners have applied them. With 0 there is one update in
    each step, of the mean of all gradients: that is `ShardedOptimizer`, and all weights are bitwise
    those of `SynchronousSGDOptimizer`.

    In `fit` each peer takes as many steps as it has batches, and gradients are not weighted. Nobody
    waits for a peer that has no more batches. The peers meet at the end of each epoch, and count
    their steps anew. What is validated and saved is what the owners have then, after all pushes;
    `fit` ends with that. Saved files are those of the plain optimizer, as with `ShardedOptimizer`.
    In a loop of your own, call `optimizer.kungfu_algorithm.finish()` on all peers at its end, and
    save within `average_variables`. Sparse gradients travel as dense ones.

    The number of peers must stay as it is: `elastic.fit` and `kungfu-run -on-failure survive` are
    refused. In a process that is alone it is the plain optimizer.

    Sources: Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014;
    Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server",
    NIPS 2013 (`staleness`).

    Args:
        optimizer: One of Keras 3. It is changed in place.
        staleness: How many steps a peer may be ahead of another, an integer from 0; None: any
            number.

    Returns:
        The same object.

    Raises:
        TypeError: If `optimizer` is not an optimizer of Keras 3, or `staleness` is no integer.
        ValueError: If it is wrapped already, or `staleness` is negative.
        UnimplementedError: If it has `use_ema`, or consists of several optimizers; unless
            `staleness` is 0, if it has `global_clipnorm`, accumulates gradients or scales the loss.
            In a step, if a variable has no gradient.

    Example:

    ```python
    optimizer = kf.optimizers.ParameterServerOptimizer(keras.optimizers.SGD(0.1), staleness=4)
    model.compile(optimizer=optimizer, loss="mse")
    ```
    """
    if staleness is not None:
        check_steps("staleness", staleness, least=0)
    if staleness == 0:
        return ShardedOptimizer(optimizer)
    _check(optimizer)
    again = functools.partial(ParameterServerOptimizer, staleness=staleness)
    make = functools.partial(ParameterServers, staleness)
    return wrap_in_shards(_NAME, optimizer, Keras3Served, make, again)


def _check(optimizer: Any) -> None:
    found = [
        what for name, what in _NOT_OF_A_SHARD.items() if getattr(optimizer, name, None) is not None
    ]
    if found:
        raise errors.UnimplementedError(
            f"{_NAME}: {type(optimizer).__name__} has {found[0]}, and an owner sees one push, of "
            "its variables only. Leave it away, or give staleness=0"
        )


_NOT_OF_A_SHARD = {
    "global_clipnorm": "global_clipnorm",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "inner_optimizer": "a loss scale",
}
