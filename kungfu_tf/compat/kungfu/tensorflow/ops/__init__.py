"""KungFu's operations."""

from kungfu.python import current_local_rank, run_barrier
from kungfu.tensorflow.ops.adapt import (
    resize,
    resize_cluster_from_url,
    step_based_schedule,
)
from kungfu.tensorflow.ops.collective import (
    all_gather,
    all_reduce,
    barrier,
    broadcast,
    consensus,
    defuse,
    fuse,
    group_all_reduce,
    group_hierarchical_nccl_all_reduce,
    group_nccl_all_reduce,
    monitored_all_reduce,
    subset_all_reduce,
)
from kungfu.tensorflow.ops.local import save_variable, save_variables
from kungfu.tensorflow.ops.monitor import (
    calc_stats,
    check_interference,
    egress_rates,
    global_noise_scale,
    log_stats,
    print_strategy_stats,
)
from kungfu.tensorflow.ops.p2p import request_variable, request_variable_with_template
from kungfu.tensorflow.ops.queue import new_queue
from kungfu.tensorflow.ops.state import counter, exponential_moving_average
from kungfu.tensorflow.ops.topology import (
    cluster_size,
    current_cluster_size,
    current_rank,
    get_neighbour_mask,
    get_peer_latencies,
    global_minimum_spanning_tree,
    peer_info,
    rank,
    round_robin,
    set_tree,
)

__all__ = [
    "all_gather",
    "all_reduce",
    "barrier",
    "broadcast",
    "calc_stats",
    "check_interference",
    "cluster_size",
    "consensus",
    "counter",
    "current_cluster_size",
    "current_local_rank",
    "current_rank",
    "defuse",
    "egress_rates",
    "exponential_moving_average",
    "fuse",
    "get_neighbour_mask",
    "get_peer_latencies",
    "global_minimum_spanning_tree",
    "global_noise_scale",
    "group_all_reduce",
    "group_hierarchical_nccl_all_reduce",
    "group_nccl_all_reduce",
    "log_stats",
    "monitored_all_reduce",
    "new_queue",
    "peer_info",
    "print_strategy_stats",
    "rank",
    "request_variable",
    "request_variable_with_template",
    "resize",
    "resize_cluster_from_url",
    "round_robin",
    "run_barrier",
    "save_variable",
    "save_variables",
    "set_tree",
    "step_based_schedule",
    "subset_all_reduce",
]
