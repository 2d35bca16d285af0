"""DiLoCo: peers train apart; after some steps an outer optimizer takes their mean movement."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import tensorflow as tf

from kungfu_tf import groups
from kungfu_tf.exchange.codec import Codec, check_codec
from kungfu_tf.exchange.fragments import Fragments
from kungfu_tf.exchange.gossip import Gossip
from kungfu_tf.exchange.island import Island, check_island
from kungfu_tf.exchange.schedule import check_steps
from kungfu_tf.exchange.streaming import Streaming
from kungfu_tf.exchange.wrap import wrap
from kungfu_tf.groups import Group
from kungfu_tf.replicas.average import assign_means
from kungfu_tf.topology import Topology
from kungfu_tf.topology.checks import check_argument
from kungfu_tf.upstream import generations

Optimizer = TypeVar("Optimizer")


class DiLoCo(Streaming):
    """θ ← outer(θ, mean over peers of θ − v), v ← θ, at meetings. See `DiLoCoOptimizer`.

    Args:
        make_outer: Makes an outer optimizer. Each fragment has one.
        fragments: As for `Streaming`.
        compression: As for `Streaming`.
        merge: As for `Streaming`.
        island: As for `Streaming`.
        gossip: The topology of those that meet, each with an anchor of its own; None: all meet.
    """

    no_graphs = (
        "its outer optimizer is one of Keras, which does not work in graphs of TF1, nor with "
        "optimizers of tf.compat.v1.train. LocalSGDOptimizer and SynchronousAveragingOptimizer do"
    )

    def __init__(
        self,
        make_outer: Callable[[], Any],
        fragments: Fragments,
        compression: Codec | None = None,
        merge: float = 0.0,
        island: Island | None = None,
        gossip: Topology | None = None,
    ) -> None:
        super().__init__(fragments, compression, merge, island)
        parts = range(fragments.count)
        self._gossips = [] if gossip is None else [Gossip(gossip) for _ in parts]
        with tf.init_scope():
            self.outers = [make_outer() for _ in parts]
        self._fragment_of: dict[Any, int] = {}  # by references of anchors

    def build(self, variables: Sequence[Any]) -> None:
        """Creates the anchors, and the state of the outer optimizers."""
        is_new = not self.anchors
        super().build(variables)
        if not is_new or not self.anchors:
            return
        for number, part in enumerate(self._dealt):
            anchors = self._anchors_of(part)
            self._fragment_of.update((anchor.ref(), number) for anchor in anchors)
            with tf.init_scope():
                generations.build(self.outers[number], anchors)
        states = [v for outer in self.outers for v in generations.variables_of(outer)]
        self.state.outer = [generations.native(v) for v in states]

    @functools.cached_property
    def state(self) -> tf.Module:
        """As that of `Streaming`, with the meetings of neighbours."""
        state = super().state
        state.meetings = [gossip.meetings for gossip in self._gossips]
        return state

    @property
    def own_variables(self) -> Sequence[Any]:
        """With neighbours also the anchors, and the state of the outer optimizers."""
        return [*super().own_variables, *self._of_own_anchors()]

    @property
    def variables(self) -> Sequence[Any]:
        """The state that is equal on all peers."""
        own = {id(v) for v in self._of_own_anchors()}
        return [v for v in super().variables if id(v) not in own]

    def _of_own_anchors(self) -> list[Any]:
        if not self._gossips:
            return []
        return [*self.anchors, *getattr(self.state, "outer", []), self._has_begun.get()]

    def movements(self, variables: Sequence[Any], samples: Any, name: str) -> list[Any]:
        """The means of all peers; or with neighbours θ − Σⱼ W[i, j]·vⱼ, by which anchors come
        together, too.
        """
        if not self._gossips or not variables:
            return super().movements(variables, samples, name)
        anchors = self._anchors_of(variables)
        gossip = self._gossips[self._fragment_of[anchors[0].ref()]]
        mixed = gossip.mixed(variables, f"{self.name}/{name}")
        return [anchor - value for anchor, value in zip(anchors, mixed, strict=True)]

    def evaluated(self, variable: Any) -> Any:
        """The anchor; or with neighbours None: the mean of the models."""
        return None if self._gossips else super().evaluated(variable)

    def finish(self) -> None:
        """The last meeting. Neighbours then continue from the mean of all models."""
        super().finish()
        trained = list(self._trained.get().values())
        if not self._gossips or not trained:
            return
        with groups.among(self.group):
            assign_means(trained, name=f"{self.name}/end")
        self._has_begun.get().assign(False)

    def move(self, anchors: Sequence[Any], means: Sequence[Any]) -> None:
        """Makes the outer step of a fragment."""
        if not anchors:
            return
        outer = self.outers[self._fragment_of[anchors[0].ref()]]
        outer.apply_gradients(list(zip(means, anchors, strict=True)))


def _check_times(every: int, fragments: int, overlap: int, merge: float) -> None:
    if fragments > every:
        raise ValueError(f"DiLoCoOptimizer: {fragments} fragments need as many steps: {every=}")
    if overlap >= every // fragments and overlap:
        raise ValueError(
            f"DiLoCoOptimizer: a meeting must end before the next begins: {overlap=} is not less "
            f"than the {every // fragments} steps between two meetings ({every=}, {fragments=})"
        )
    if isinstance(merge, bool) or not isinstance(merge, (int, float)) or not 0 <= merge < 1:
        raise ValueError(f"DiLoCoOptimizer: merge is a number from 0 to below 1, not {merge!r}")


def _check_outer(outer: Any) -> None:
    try:
        generations.package_of_optimizer(outer)
    except TypeError as error:
        advice = "outer is an optimizer such as keras.optimizers.SGD(0.7)"
        raise TypeError(f"DiLoCoOptimizer: {advice}: {error}") from None
    if generations.is_wrapped(outer):
        raise ValueError(
            f"DiLoCoOptimizer: outer, a {type(outer).__name__}, is wrapped. It works on what all "
            "peers have in common: give a plain optimizer"
        )


def DiLoCoOptimizer(  # noqa: N802 (as the other optimizers)
    optimizer: Optimizer,
    *,
    outer: Any = None,
    every: int = 100,
    fragments: int = 1,
    overlap: int = 0,
    merge: float = 0.5,
    island: Group | str | None = None,
    gossip: Topology | None = None,
    compression: Codec | None = None,
    group: Group | None = None,
) -> Optimizer:
    """Makes peers train apart, and an outer optimizer take the mean of their movements.

    ```
    θ: the anchor, equal on all peers
    v ← update(v, g)                                    # g: of this peer's batch
    after every `every`-th step:
        Δ ← Σ over peers of n·(θ − v) / Σ over peers of n   # n: samples since the last meeting
        θ ← outer(θ, Δ)                                 # Δ takes the place of a gradient
        v ← θ
    ```

    Between two meetings nothing is sent, so a slow network counts for 1/`every` of what it does
    with `SynchronousSGDOptimizer`. A peer keeps θ and the state of `outer` in memory: with the
    default two more copies of the model. With `outer=SGD(1.0)` it is `LocalSGDOptimizer`; with
    `SGD(rate, momentum)` it is SlowMo or BMUF. In a single process it is Lookahead.

    At a meeting all peers wait while the model travels. With `fragments` a part of the model
    travels at a time. With `overlap` nobody waits: it travels for some steps ("Streaming DiLoCo").
    The layers are dealt to the fragments in turn, and each has an outer optimizer:

    ```
    after each step t with t ≡ f·every/fragments (mod every), rounded down, but not at t = 0:
        Δ ← Σ over peers of n·(θ_f − v_f) / Σ over peers of n   # of fragment f; n: since its last
    `overlap` steps later:
        θ_f ← outer_f(θ_f, Δ)
        v_f ← merge·v_f + (1 − merge)·θ_f                       # without overlap: v_f ← θ_f
    ```

    So at most one part of `fragments` travels in every/`fragments` steps. It costs memory for what
    is under way, and accuracy: θ follows later. Steps t are those since the last common meeting, as
    at the end of `fit`.

    With `island="host"` the peers of each host train in step, as with `SynchronousSGDOptimizer`:
    each gradient is the mean over their samples. So only hosts differ between meetings, and the
    fast links within them carry the gradients. A `kungfu_tf.Group` makes any other island, such as
    a room of hosts; each peer gives the one that it belongs to.

    With `gossip` a peer waits at a meeting for its neighbours only ("NoLoCo"). Each has an anchor
    of its own, and models come together meeting by meeting:

    ```
    after every `every`-th step:
        uᵢ ← Σⱼ W[i, j]·vⱼ              # W: the topology's matrix for the meeting
        θᵢ ← outer(θᵢ, θᵢ − uᵢ)         # as θᵢ − vᵢ of the neighbours, and θᵢ less their mean
        vᵢ ← θᵢ
    ```

    The meetings of a fragment count from 0, with those of `finish`, so each matrix has its turn.
    With many peers, or uneven ones, that is much less waiting. Samples do not count then. The mean
    of the models is evaluated and saved, and `finish` makes it the model of all. `BackupAndRestore`
    keeps each peer's anchor and outer state beside its model; if they are not found, all continue
    from the mean. It cannot be used with `kungfu-run -on-failure survive`.

    Expect a loss of accuracy in short trainings: the parity that the paper reports is that of long
    ones. Take `every` up to a hundredth of the steps of the training, and tune the rates of both
    optimizers. Inside one host, where peers share memory, nothing is gained.

    The default of `outer` is the paper's, for thousands of meetings. In trainings of about 20 take
    `outer=keras.optimizers.SGD(1.0, momentum=0.5, nesterov=True)`; in those of 50 to 100 also try a
    rate of 0.7 with momentum of 0.8. Momentum of 0.9 carries a movement over ten meetings, for
    which a short training has no time. The guide "Choose an optimizer" has what was measured.

    What is evaluated and saved is θ: `average_variables` puts it into the model, without an
    exchange. `fit` does so by itself, and ends with a last meeting, after which the model is θ. In
    a loop of your own, call `optimizer.kungfu_algorithm.finish()` on all peers: what is under way
    ends, and all fragments meet that had steps since.

    Numbers of batches, callbacks that stop, steps without an update and what `fit` asks in each
    step are as described at `LocalSGDOptimizer`. A step must have all variables that the optimizer
    trains. Refused are graphs of TF1, optimizers of `tf.compat.v1.train`, and `use_ema`.

    A training that is resumed by `BackupAndRestore` of Keras 3 continues as if it had not been
    interrupted, also between two meetings, or while something is under way. For that each peer
    writes its own model and slots into the folder of the backup. If not all peers find theirs, as
    after a change of their number, they continue from θ, with the slots of rank 0. In a loop of
    your own, call `optimizer.kungfu_algorithm.share_state()` on all peers before
    `tf.train.Checkpoint(algorithm=optimizer.kungfu_algorithm.state)` saves θ and the state of
    `outer`. There newcomers first call
    `optimizer.kungfu_algorithm.build(model.trainable_variables)`. Then send them
    `optimizer.kungfu_algorithm.variables` along with the model.

    `BackupAndRestore` cannot resume a model with several of these optimizers.

    If a peer is lost between two meetings and the others go on (`kungfu-run -on-failure survive`),
    the next meeting is theirs. Nothing is lost but the steps of that peer. If it is lost while
    something is under way, that is the survivors', or complete with what the lost peer has sent.

    Sources: Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models",
    2023, arXiv:2311.08105; Douillard et al., "Streaming DiLoCo with overlapping communication",
    2025, arXiv:2501.18512. NoLoCo: Kolehmainen et al., 2025, arXiv:2506.10911, with γ = β; signs as
    in the authors' program. Lookahead: Zhang et al., NeurIPS 2019. SlowMo: Wang et al., ICLR 2020.

    Args:
        optimizer: As for `SynchronousSGDOptimizer`, of Keras. It is changed in place.
        outer: The outer optimizer, any one of Keras. Copies of it, made from its config, work: read
            `optimizer.kungfu_algorithm.outers`. Default: SGD with a learning rate of 0.7, and
            Nesterov momentum of 0.9; with `gossip` momentum of 0.5, as the paper's.
        every: The number of steps between two meetings, an integer from 1.
        fragments: In how many parts the model travels, an integer from 1 to `every`; at most as
            many as the model has layers.
        overlap: For how many steps a part travels while the training goes on, an integer from 0.
            It must be less than every // fragments.
        merge: The part of a peer's own model that stays when θ has moved, a number from 0 to below
            1. It counts with `overlap` only.
        island: The peers that train in step with this one: "host" for those of its host, or a
            `kungfu_tf.Group`; None: each peer trains apart. Not with gradient accumulation, with
            `group`, or where peers may come or go (`kungfu-run -w`, `-on-failure survive`).
        gossip: Who meets whom, such as `kungfu_tf.topology.random_matching(seed=0)`, the same on
            all peers; None: all meet. Its matrices must be doubly stochastic, and connect all.
        compression: How the movements θ − v travel, a codec of `kungfu_tf.compression` such as
            `Int8()`; None: as they are. The optimizer makes a codec of its own with the same
            settings. At each meeting the peers then first add up their samples, 8 bytes.
        group: As for `SynchronousSGDOptimizer`.

    Returns:
        The same object.

    Raises:
        TypeError: If `optimizer` or `outer` is not an optimizer of Keras, a number of steps or
            fragments is not an integer, `island` is no group, `gossip` is no topology, or
            `compression` is no codec.
        ValueError: If `optimizer` or `outer` is wrapped already, a number is out of range,
            `optimizer` has `use_ema`, or there is `overlap` with `compression`, or `island` with
            `group` or with an optimizer that accumulates gradients, or `gossip` with `overlap`,
            `island` or `compression`.
        InvalidArgumentError: In a step, if the topology of `gossip` makes no means.
        UnimplementedError: In a step, in a TF1 graph; if it has other variables than the first; if
            there are fewer layers than fragments; or with `island` where peers may come or go.

    Example:

    ```python
    optimizer = kf.optimizers.DiLoCoOptimizer(keras.optimizers.Adam(1e-3), every=50)
    model.compile(optimizer=optimizer, loss="mse")
    ```
    """
    check_steps("every", every, least=1)
    check_steps("fragments", fragments, least=1)
    check_steps("overlap", overlap, least=0)
    check_island(island)
    check_codec(compression)
    if gossip is not None:
        check_argument("gossip", gossip)
    _check_times(every, fragments, overlap, merge)
    if gossip is not None and (overlap or island is not None or compression is not None):
        raise ValueError(
            "DiLoCoOptimizer: gossip cannot be with overlap, island or compression. Leave gossip "
            "away, or the other"
        )
    if overlap and compression is not None:
        raise ValueError(
            "DiLoCoOptimizer: overlap cannot be with compression: a codec exchanges several things "
            "one after the other, and only the first could be begun. Leave one of the two away"
        )
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        raise TypeError(f"DiLoCoOptimizer: {type(optimizer).__name__}: {DiLoCo.no_graphs}")
    parts = list(generations.parts_of(optimizer))
    if any(getattr(part, "use_ema", False) for part in parts):
        raise ValueError(
            "DiLoCoOptimizer: use_ema cannot be: moving averages would follow each peer's own "
            "model, and the model that is evaluated and saved is the anchor. Leave it away"
        )
    if island is not None and group is not None:
        raise ValueError(
            "DiLoCoOptimizer: island cannot be with group: the peers of an island are found among "
            "all peers. Leave one of the two away"
        )
    accumulates = (getattr(part, "gradient_accumulation_steps", None) for part in parts)
    if island is not None and any(accumulates):
        raise ValueError(
            "DiLoCoOptimizer: island cannot be with an optimizer that accumulates gradients: the "
            "peers of an island would not update in the same steps. Leave one of the two away"
        )
    config: dict[str, Any] = {}
    if outer is not None:
        _check_outer(outer)
        config = outer.get_config()

    def make_outer() -> Any:
        if outer is not None:
            return type(outer).from_config(config)
        keras = generations.package_of_optimizer(wrapped).module
        if gossip is not None:
            return keras.optimizers.SGD(0.7, momentum=0.5)
        return keras.optimizers.SGD(0.7, momentum=0.9, nesterov=True)

    def make() -> DiLoCo:
        times = Fragments(every, fragments, overlap)
        within = None if island is None else Island(island)
        return DiLoCo(make_outer, times, compression, merge if overlap else 0.0, within, gossip)

    wrapped = wrap(optimizer, make, group=group)
    return wrapped
