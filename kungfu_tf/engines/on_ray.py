"""`kungfu_tf.ray`, as users see it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from kungfu_tf.engines import attempts, missing, orders, trial_grid
from kungfu_tf.engines.orders import Order
from kungfu_tf.function_launch import arguments
from kungfu_tf.function_launch.results import Child

T = TypeVar("T")
_ONE_CPU = {"CPU": 1.0}


def run(
    fn: Callable[..., T],
    np: int,
    *,
    min_np: int | None = None,
    max_np: int | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    data: Any = None,
    resources: Mapping[str, float] | None = None,
    strategy: str = "PACK",
    env: Mapping[str, str] | None = None,
    restarts: int = 0,
    start_timeout: float = 300.0,
    timeout: float | None = None,
) -> list[T]:
    """Runs `fn(*args, **kwargs)` in `np` processes of a Ray cluster, which are the peers of a job.

    Each process is the child of an actor, and the actors are in one placement group. `ray.init` is
    called first if the program has not. The output of the processes appears where Ray shows that of
    actors. `fn` is sent by cloudpickle, as by `kungfu_tf.launch`.

    The first process that fails ends the others, with KUNGFU_GRACE seconds to clean up. Afterwards
    no actor and no placement group is left.

    With `min_np` or `max_np` the job is elastic: the number of processes may change while it runs,
    between the two. The program asks for another number, as by `kungfu_tf.resize`. A process or an
    actor that is killed does not end the job: the others go on, and Ray starts another one in its
    place when it has room.

    Args:
        fn: The function. `kungfu_tf.rank()` tells it its rank.
        np: The number of processes. An elastic job begins with fewer if Ray has no room for all in
            `start_timeout` seconds, and grows when it has.
        min_np: The least number of processes of an elastic job. Default: 1.
        max_np: The most. Default: `np`. With neither of the two the number stays the same.
        args: Its arguments.
        kwargs: Its keyword arguments.
        data: A `ray.data.Dataset`. Ray executes it first. Its rows are dealt evenly to the
            processes, in their order: each gets its part by `kungfu_tf.data.from_cluster`. Not in
            an elastic job.
        resources: What Ray reserves for each process: `{"CPU": 4, "GPU": 1}`. Default: one CPU.
        strategy: How Ray spreads the processes over its nodes: "PACK" on few, "SPREAD" over many,
            "STRICT_PACK" on one, "STRICT_SPREAD" one on each. An elastic job has the first two.
        env: Variables for the processes. The caller's settings of kungfu_tf are sent, too.
        restarts: How often all processes are started anew after a failure, to go on from a
            checkpoint. KUNGFU_RESTARTS counts that.
        start_timeout: How many seconds the cluster has to make room and to start the processes.
        timeout: How many seconds `fn` may take; None: any time.

    Returns:
        The results of `fn`, by rank; of an elastic job those of the processes that took part at the
        end.

    Raises:
        PeerFailedError: If `fn` raised, or a process or an actor was killed. The message names rank
            and host and has the traceback from there; `__cause__` is the exception of `fn`, if it
            can be pickled.
        ResourceExhaustedError: If the cluster has no room for the processes.
        DeadlineExceededError: If they do not start or end in time.
        UnavailableError: If an actor cannot start.
        InvalidArgumentError: If `fn` cannot be pickled.
        FailedPreconditionError: If this process is a peer itself, and `np` is not 1.
        ImportError: If Ray is not installed.
        TypeError, ValueError: If an argument is invalid.

    Example:

    ```python
    def train(lr):
        model = make_model()
        model.compile(kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(lr)), "mse")
        return model.fit(kf.data.shard(dataset()).batch(32)).history["loss"]

    losses = kungfu_tf.ray.run(train, 4, kwargs={"lr": 0.1})
    ```
    """
    np = arguments.checked(
        "ray.run", fn, np, timeout, start_timeout=start_timeout, restarts=restarts
    )
    ray = missing.needed("ray", "kungfu_tf.ray.run")
    from kungfu_tf.engines import ray_elastic, ray_job

    sizes = None
    if min_np is not None or max_np is not None:
        sizes = ray_elastic.sizes(np, min_np, max_np)
        _check_elastic(data, strategy)
    order = orders.new(fn, args, kwargs, env)
    if not ray.is_initialized():
        ray.init()
    seconds = math.inf if timeout is None else float(timeout)

    needed = _ONE_CPU if resources is None else resources
    if sizes is not None:

        def elastic(order: Order) -> list[Child]:
            return ray_elastic.run(order, sizes, needed, strategy, start_timeout, seconds)

        return attempts.run(elastic, order, restarts)
    shards = None
    if data is not None:
        missing.needed("pyarrow", "kungfu_tf.ray.run with data=")
        from kungfu_tf.engines import ray_rows

        shards = ray_rows.shards_of(data, np)

    def attempt(order: Order) -> list[Child]:
        with ray_job.placed(np, needed, strategy, start_timeout) as peers:
            return ray_job.run(peers, order, seconds, shards)

    return attempts.run(attempt, order, restarts)


def _check_elastic(data: Any, strategy: str) -> None:
    if data is not None:
        raise ValueError("ray.run: data= is dealt once, and an elastic job changes its number")
    if strategy not in ("PACK", "SPREAD"):
        raise ValueError(f"ray.run: strategy {strategy!r} is not one of an elastic job")


def trials(
    fn: Callable[..., T],
    grid: Iterable[Mapping[str, Any]],
    *,
    resources: Mapping[str, float] | None = None,
    env: Mapping[str, str] | None = None,
    return_errors: bool = False,
    start_timeout: float = 300.0,
    timeout: float | None = None,
) -> list[T]:
    """Runs `fn(**item)` for each item of `grid`, in a process of a Ray cluster each.

    The trainings are independent of each other, and each process is one of one. As many run at once
    as the cluster has room for. A trial that fails does not end the others.

    A peer may call this, too: its trials do not belong to its job.

    Args:
        fn: The function.
        grid: The keyword arguments of each trial.
        resources: What Ray reserves for each trial: `{"CPU": 4, "GPU": 1}`. Default: one CPU.
        env: As of `run`.
        return_errors: Whether the error of a trial that failed stands in the place of its result.
        start_timeout: How many seconds the cluster has to get a node that is large enough.
        timeout: How many seconds all trials may take; None: any time.

    Returns:
        The results of `fn`, in the order of `grid`.

    Raises:
        PeerFailedError: If trials have failed, that of the first of them, after all have ended.
        KungfuError, ImportError, TypeError: As from `run`.

    Example:

    ```python
    losses = kungfu_tf.ray.trials(train, [{"lr": lr} for lr in (0.01, 0.1, 1.0)])
    ```
    """
    arguments.checked("ray.trials", fn, 1, timeout, start_timeout=start_timeout)
    listed = trial_grid.checked("ray.trials", grid)
    ray = missing.needed("ray", "kungfu_tf.ray.trials")
    from kungfu_tf.engines import ray_trials

    if not listed:
        return []
    orders = trial_grid.orders_of(fn, listed, env)
    if not ray.is_initialized():
        ray.init()
    needed = _ONE_CPU if resources is None else resources
    ray_trials.wait_for_a_node(needed, start_timeout)
    ended = ray_trials.run(orders, needed, math.inf if timeout is None else float(timeout))
    return trial_grid.results_of(ended, listed, return_errors=return_errors)
