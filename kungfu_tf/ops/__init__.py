"""Operations between peers, for eager code, `tf.function` and TF1 graphs.

This page describes what all of them have in common.

**Peers.** Every peer calls the same operations. Calls are matched by `name`, which must be the same
on every peer; the default is made from the place in the program. In eager code a call returns when
it is done, so all peers must make their calls in the same order. In a graph, operations run in any
order and at the same time.

**Tensors.** Anything that `tf.convert_to_tensor` takes, of the same dtype and shape on all peers
unless stated otherwise. Results have the dtype of their inputs. On a GPU the data go through the
host's memory.

    dtype                   sum        mean    min, max   prod   moves (broadcast, gather, ...)
    floating, bfloat16      yes        yes     yes        yes    yes
    integer                 wraps      cut     yes        yes    yes
    complex                 yes        yes     -          yes    yes
    bool                    -          -       all, any   -      yes
    string, ...             -          -       -          -      -

A mean of integers is the exact sum, divided by the number of peers and cut off toward zero; sums
of int64 and uint64 wrap. Sums of float16 and bfloat16 are accumulated in float32. Operands are
added in the same order everywhere, so all peers get the same bits. The results of neighbours are
each peer's own.

**Errors.** The call itself raises what is wrong with the program, in eager code and while a graph
is built or traced:

    UnsupportedTypeError    the dtype cannot be sent, or the table above has no such reduction
    InvalidArgumentError    there is no such reduction; or the operation is in a `while_loop` that
                            may run its iterations in any order
    UnimplementedError      the operation is in a function that XLA compiles
    LibraryError            there is no op library for the running TensorFlow

Eager calls, functions and `session.run` raise TensorFlow's errors for what goes wrong at run time:

    tf.errors.InvalidArgumentError      peers differ in dtype, shape, reduction, root, or anything
                                        else that must be the same; raised on all peers
    tf.errors.DeadlineExceededError     a peer has not called within KUNGFU_COLLECTIVE_TIMEOUT
                                        seconds (600), or cannot be reached
    tf.errors.UnavailableError          a peer is gone
    tf.errors.CancelledError            the step failed elsewhere, here or on another peer, or this
                                        peer was shut down in the middle
    tf.errors.PermissionDeniedError     a peer does not have the job's secret, or is another user's
    tf.errors.FailedPreconditionError   after `kungfu_tf.shutdown`, and in a forked process
    tf.errors.ResourceExhaustedError    there is no memory for the result
"""

from __future__ import annotations

from kungfu_tf.ops import gradients as _gradients  # noqa: F401  registers them
from kungfu_tf.ops.adasum import adasum, group_adasum
from kungfu_tf.ops.begun import (
    begin_group_all_reduce,
    begin_group_neighbor_all_reduce,
    end_group_all_reduce,
)
from kungfu_tf.ops.collective import (
    all_gather,
    all_reduce,
    all_to_all,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
)
from kungfu_tf.ops.fuse import defuse, fuse
from kungfu_tf.ops.group import group_all_reduce, group_broadcast
from kungfu_tf.ops.group_rows import (
    group_all_gather,
    group_all_to_all,
    group_reduce_scatter,
)
from kungfu_tf.ops.hierarchical import hierarchical_neighbor_all_reduce
from kungfu_tf.ops.meeting import barrier, consensus
from kungfu_tf.ops.monitoring import (
    calc_stats,
    egress_rates,
    get_peer_latencies,
    ingress_rates,
    monitored_all_reduce,
)
from kungfu_tf.ops.neighbor import (
    group_neighbor_all_reduce,
    neighbor_all_gather,
    neighbor_all_reduce,
    pair_gossip,
)
from kungfu_tf.ops.noise_scale import global_noise_scale
from kungfu_tf.ops.queue import new_queue
from kungfu_tf.ops.resize import resize, step_based_schedule
from kungfu_tf.ops.smoothing import counter, exponential_moving_average
from kungfu_tf.ops.spanning_tree import (
    get_neighbour_mask,
    global_minimum_spanning_tree,
    round_robin,
)
from kungfu_tf.ops.store import (
    request_variable,
    request_variable_with_template,
    save_variable,
    save_variables,
)
from kungfu_tf.ops.strategy import parents, set_strategy, set_tree, subset_all_reduce
from kungfu_tf.ops.topology import cluster_size, peer_info, rank
from kungfu_tf.ops.window import Window, new_window

__all__ = [
    "Window",
    "adasum",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "barrier",
    "begin_group_all_reduce",
    "begin_group_neighbor_all_reduce",
    "broadcast",
    "calc_stats",
    "cluster_size",
    "consensus",
    "counter",
    "defuse",
    "egress_rates",
    "end_group_all_reduce",
    "exponential_moving_average",
    "fuse",
    "gather",
    "get_neighbour_mask",
    "get_peer_latencies",
    "global_minimum_spanning_tree",
    "global_noise_scale",
    "group_adasum",
    "group_all_gather",
    "group_all_reduce",
    "group_all_to_all",
    "group_broadcast",
    "group_neighbor_all_reduce",
    "group_reduce_scatter",
    "hierarchical_neighbor_all_reduce",
    "ingress_rates",
    "monitored_all_reduce",
    "neighbor_all_gather",
    "neighbor_all_reduce",
    "new_queue",
    "new_window",
    "pair_gossip",
    "parents",
    "peer_info",
    "rank",
    "reduce",
    "reduce_scatter",
    "request_variable",
    "request_variable_with_template",
    "resize",
    "round_robin",
    "save_variable",
    "save_variables",
    "set_strategy",
    "set_tree",
    "step_based_schedule",
    "subset_all_reduce",
]
