"""Operations in which each peer exchanges data with its neighbours alone.

Neighbours come from a topology (`kf.topology`), or are given with their weights. A peer waits for
its own neighbours only, and each peer has a result of its own: it is the same bits in each run, but
other peers may have other bits.

They cannot be used with `kungfu-run -on-failure survive`: survivors could not repeat them.
`kungfu_tf.ops` describes what all operations have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import groups
from kungfu_tf.groups import Group
from kungfu_tf.ops import group as group_operations
from kungfu_tf.ops import kernels, naming, tensors
from kungfu_tf.ops import topology as ranks_and_sizes
from kungfu_tf.ops.neighborhood import Neighborhood, neighborhood, numbers, ones
from kungfu_tf.topology import Topology


@kernels.operation
def neighbor_all_reduce(
    tensor: Any,
    *,
    topology: Topology | None = None,
    step: Any = 0,
    self_weight: Any = None,
    src_weights: Any = None,
    dst_weights: Any = None,
    name: str | None = None,
    group: Group | None = None,
) -> Any:
    """Returns the weighted sum of this peer's tensor and those of its neighbours.

    `yᵢ = Σⱼ W[i, j]·xⱼ`, with the matrix W of a step of the topology. Or, with given weights,
    `yᵢ = self_weight·xᵢ + Σ src_weights[j]·(what j sends)`, where j sends `dst_weights[i]·xⱼ`.

    Operands are added in the order: its own, then those of the sources by rank. Differentiable: the
    gradients go back, with the same weights.

    Args:
        tensor: A floating or complex tensor.
        topology: Who mixes with whom; default `kf.topology.base_graph()`. The same on all peers.
        step: An integer: which matrix of the topology's cycle it is. The same on all peers.
        self_weight: Instead of a topology: the weight of this peer's tensor.
        src_weights: The ranks that it takes from, with their weights: a dict, or a tuple of two
            vectors, ranks and weights. They need not add up to 1 with `self_weight`.
        dst_weights: The ranks that take from it: each must have this one in its `src_weights`. A
            list of ranks, or in the forms of `src_weights`, with weights by which it multiplies
            what it sends. Default: the ranks of `src_weights`, with weight 1.
        name: The same on every peer; default by the place in the program.
        group: The peers that do it, of which this is one (`kungfu_tf.Group`); None: all.

    Returns:
        A tensor of the same shape.

    Raises:
        InvalidArgumentError: If there are both a topology and weights, or some of the weights only;
            or, in eager code, if the topology is for another number of peers.
        UnsupportedTypeError: If the tensor is not floating or complex.
        tf.errors.InvalidArgumentError: If topology, step, dtype or shape differ between neighbours;
            if a rank is none, or is there twice; or, in a function, if the topology is for another
            number of peers.
        tf.errors.DeadlineExceededError: If a source does not have this peer as a target.
        tf.errors.FailedPreconditionError: If the job survives lost peers.

    Example:

    ```python
    for step in range(100):
        x = kf.ops.neighbor_all_reduce(x, step=step)             # one partner in each step
    before = (kf.rank() - 1) % kf.size()
    behind = (kf.rank() + 1) % kf.size()
    y = kf.ops.neighbor_all_reduce(
        x, self_weight=0.5, src_weights={before: 0.5}, dst_weights=[behind]
    )
    ```
    """
    with groups.among(group):
        what = naming.title("neighbor_all_reduce", name)
        near = neighborhood(what, topology, step, self_weight, src_weights, dst_weights)
        tag = naming.make_tag("neighbor_all_reduce", name)
        return weighted_sums([tensor], near, what=what, tag=tag)[0]


@kernels.operation
def group_neighbor_all_reduce(
    values: Sequence[Any],
    *,
    topology: Topology | None = None,
    step: Any = 0,
    self_weight: Any = None,
    src_weights: Any = None,
    dst_weights: Any = None,
    name: str | None = None,
    group: Group | None = None,
) -> list[Any]:
    """`neighbor_all_reduce` of many tensors at once.

    One operation moves all tensors of a dtype.

    Args:
        values: Tensors, and None, which stays None.
        topology: As for `neighbor_all_reduce`, as the next.
        step: Which matrix of the topology's cycle it is.
        self_weight: The weight of this peer's tensors.
        src_weights: The ranks that it takes from.
        dst_weights: The ranks that take from it.
        name: The same on every peer; default by the place in the program.
        group: The peers that do it, of which this is one (`kungfu_tf.Group`); None: all.

    Returns:
        The results, in the order of the inputs and of their shapes.

    Raises:
        InvalidArgumentError: As from `neighbor_all_reduce`, as the others.
        UnsupportedTypeError: If a tensor is not floating or complex.
        tf.errors.InvalidArgumentError: If neighbours differ, also in the places of None or the
            names of variables.

    Example:

    ```python
    values = kf.ops.group_neighbor_all_reduce(variables, step=optimizer.iterations)
    ```
    """
    with groups.among(group):
        what = naming.title("group_neighbor_all_reduce", name)
        near = neighborhood(what, topology, step, self_weight, src_weights, dst_weights)
        tag = naming.make_tag("group_neighbor_all_reduce", name)
        agree = group_operations.identities(values)
        return weighted_sums(values, near, what=what, tag=tag, agree=agree)


@kernels.operation
def neighbor_all_gather(
    tensor: Any,
    *,
    topology: Topology | None = None,
    step: Any = 0,
    sources: Any = None,
    targets: Any = None,
    concat: bool = False,
    name: str | None = None,
    group: Group | None = None,
) -> Any:
    """Returns the tensors of this peer's sources, in the order of their ranks, without its own.

    Differentiable: each peer gets the sum of the gradients of its part. The gradient is an
    operation of all peers.

    Args:
        tensor: A tensor.
        topology: As for `neighbor_all_reduce`; the weights do not count.
        step: Which matrix of the topology's cycle it is.
        sources: Instead of a topology: the ranks whose tensors it gets, a list or vector.
        targets: The ranks that get its tensor; default `sources`.
        concat: False stacks tensors of one shape. True concatenates them along their first axis,
            whose length may differ between peers.
        name: The same on every peer; default by the place in the program.
        group: The peers that do it, of which this is one (`kungfu_tf.Group`); None: all.

    Returns:
        All tensors in one, [sources, ...] or [sum of their lengths, ...]. Its first dimension is
        unknown in a graph.

    Raises:
        InvalidArgumentError: If there are both a topology and sources or targets, or targets alone.
        UnsupportedTypeError: If the dtype cannot be sent.
        tf.errors.InvalidArgumentError: As from `all_gather`, and `neighbor_all_reduce`.

    Example:

    ```python
    losses = kf.ops.neighbor_all_gather(loss, topology=kf.topology.ring())     # of two peers
    ```
    """
    with groups.among(group):
        what = naming.title("neighbor_all_gather", name)
        x = tensors.to_tensor(tensor, what)
        ranks = None if sources is None else (sources, ones(sources))
        near = neighborhood(what, topology, step, None if ranks is None else 1.0, ranks, targets)
        return kernels.run(
            "kungfu_neighbor_all_gather",
            x,
            near.agree[tf.newaxis],
            near.sources,
            near.targets,
            concat=concat,
            tag=naming.make_tag("neighbor_all_gather", name),
        )[0]


@kernels.operation
def pair_gossip(
    tensor: Any,
    target: Any,
    *,
    self_weight: Any = 0.5,
    pair_weight: Any = 0.5,
    name: str | None = None,
    group: Group | None = None,
) -> Any:
    """Returns the weighted sum of this peer's tensor and that of one other.

    Args:
        tensor: A floating or complex tensor.
        target: The rank of the other peer, which calls it with the rank of this one. Its own rank:
            this peer has no partner, and gets its tensor back.
        self_weight: The weight of its own tensor.
        pair_weight: The weight of the other one.
        name: The same on both peers; default by the place in the program.
        group: The peers among which they are (`kungfu_tf.Group`); None: all.

    Returns:
        A tensor of the same shape.

    Raises:
        UnsupportedTypeError: If the tensor is not floating or complex.
        tf.errors.InvalidArgumentError: If dtype or shape differ, or `target` is no rank.
        tf.errors.DeadlineExceededError: If the other peer has another target.

    Example:

    ```python
    mean = kf.ops.pair_gossip(x, kf.rank() ^ 1)     # ranks 0 and 1, 2 and 3, ...
    ```
    """
    with groups.among(group):
        what = naming.title("pair_gossip", name)
        partner = tf.cast(target, tf.int32)
        has_partner = tf.not_equal(partner, ranks_and_sizes.rank())
        own = tf.where(has_partner, numbers(self_weight, tf.float64), 1.0)
        ranks = tf.boolean_mask([partner], [has_partner])
        weights = tf.fill(tf.shape(ranks), numbers(pair_weight, tf.float64))
        near = neighborhood(what, None, 0, own, (ranks, weights), None)
        tag = naming.make_tag("pair_gossip", name)
        return weighted_sums([tensor], near, what=what, tag=tag)[0]


def weighted_sums(
    values: Sequence[Any], near: Neighborhood, *, what: str, tag: str, agree: Sequence[int] = ()
) -> list[Any]:
    """The weighted sum of each value, None for None.

    Args:
        values: Tensors and None.
        near: Whom this peer mixes with.
        what: The operation, for messages.
        tag: The name by which peers match it.
        agree: Integers from 0 to 2³¹ − 1 that must be the same on all peers.
    """
    given = [group_operations.dense(value, what) for value in values]
    for tensor, value in zip(given, values, strict=True):
        if tensor is not None:
            tensors.check_fractions(tensor, f"{what}: a weighted sum", value)
    by_dtype, layout = group_operations.laid_out(given, what, agree)
    tags = group_operations.tags_of(tag, list(map(min, by_dtype)))
    results: dict[int, Any] = {}
    for members in by_dtype:
        outputs = kernels.run(
            "kungfu_group_neighbor_all_reduce",
            list(members.values()),
            *near.inputs(),
            positions=layout,
            topology=near.topology,
            tag=tags[min(members)],
        )
        results.update(zip(members, outputs, strict=True))
    return [results.get(position) for position in range(len(values))]
