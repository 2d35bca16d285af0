"""`kungfu_tf.spark`, as users see it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from kungfu_tf.engines import attempts, missing, orders, trial_grid
from kungfu_tf.engines.orders import Order
from kungfu_tf.function_launch import arguments
from kungfu_tf.function_launch.results import Child

T = TypeVar("T")


def run(
    fn: Callable[..., T],
    *,
    num_proc: int | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    data: Any = None,
    spark: Any = None,
    env: Mapping[str, str] | None = None,
    restarts: int = 0,
    start_timeout: float = 300.0,
    timeout: float | None = None,
) -> list[T]:
    """Runs `fn(*args, **kwargs)` in processes of a Spark cluster, which are the peers of a job.

    Each process is the child of a task, and the tasks are a barrier stage. The output of the
    processes is that of Spark's executors. `fn` is sent by cloudpickle, as by `kungfu_tf.launch`.

    The first process that fails ends the others, which Spark kills.

    Args:
        fn: The function. `kungfu_tf.rank()` tells it its rank.
        num_proc: The number of processes. Default: Spark's default parallelism.
        args: The arguments of `fn`.
        kwargs: Its keyword arguments.
        data: A DataFrame, or an RDD of rows. Spark computes it first, and deals its rows evenly to
            the processes: each gets its part by `kungfu_tf.data.from_cluster`. With `restarts`
            Spark computes it again; `cache()` it if that is costly or random.
        spark: The session, a `SparkSession`. Default: the one that is active, or a new one.
        env: Variables for the processes. The caller's settings of kungfu_tf are sent, too.
        restarts: How often all processes are started anew after a failure, to go on from a
            checkpoint. KUNGFU_RESTARTS counts that.
        start_timeout: How many seconds Spark has to get slots and to start the tasks.
        timeout: How many seconds `fn` may take; None: any time.

    Returns:
        The results of `fn`, by rank.

    Raises:
        PeerFailedError: If `fn` raised, or a process or a task was killed. The message names rank
            and host and has the traceback from there. If Spark has lost the task, the message has
            Spark's reason.
        ResourceExhaustedError: If Spark has too few slots for the processes.
        DeadlineExceededError: If they do not start or end in time.
        InvalidArgumentError: If `fn` cannot be pickled.
        FailedPreconditionError: If this process is a peer itself, and `num_proc` is not 1.
        ImportError: If PySpark is not installed.
        TypeError, ValueError: If an argument is invalid.

    Example:

    ```python
    def train(lr):
        model = make_model()
        model.compile(kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(lr)), "mse")
        return model.fit(kf.data.shard(dataset()).batch(32)).history["loss"]

    losses = kungfu_tf.spark.run(train, num_proc=4, kwargs={"lr": 0.1})
    ```
    """
    several = 2 if num_proc is None else num_proc
    np = arguments.checked(
        "spark.run", fn, several, timeout, start_timeout=start_timeout, restarts=restarts
    )
    missing.needed("pyspark", "kungfu_tf.spark.run")
    from pyspark.sql import SparkSession

    from kungfu_tf.engines import spark_stage, spark_task

    session = spark or SparkSession.builder.getOrCreate()
    context = session.sparkContext
    if num_proc is None:
        np = int(context.defaultParallelism)
    order = orders.new(fn, args, kwargs, env)
    seconds = math.inf if timeout is None else float(timeout)

    if data is None:

        def tasks_of(order: Order) -> Any:
            stage = context.parallelize(range(np), np).barrier()
            return stage.mapPartitions(spark_task.of(order))

    else:
        missing.needed("pyarrow", "kungfu_tf.spark.run with data=")
        from kungfu_tf.engines import spark_rows

        tasks_of = functools.partial(spark_rows.tasks, spark_rows.frame_of(session, data), np)

    def attempt(order: Order) -> list[Child]:
        tasks = tasks_of(order)
        return spark_stage.collect(context, tasks, np, start_timeout=start_timeout, timeout=seconds)

    return attempts.run(attempt, order, restarts)


def trials(
    fn: Callable[..., T],
    grid: Iterable[Mapping[str, Any]],
    *,
    spark: Any = None,
    env: Mapping[str, str] | None = None,
    return_errors: bool = False,
    start_timeout: float = 300.0,
    timeout: float | None = None,
) -> list[T]:
    """Runs `fn(**item)` for each item of `grid`, in a process of a Spark cluster each.

    The trainings are independent of each other, and each process is one of one. As many run at once
    as Spark has slots. A function that fails, or whose process is killed, does not end the other
    trials. If Spark gives up a task itself, all trials end, and the call raises, also with
    `return_errors`. A local session does so at the first task that is lost.

    A peer may call this, too: its trials do not belong to its job.

    Args:
        fn: The function.
        grid: The keyword arguments of each trial.
        spark: As of `run`.
        env: As of `run`.
        return_errors: Whether the error of a trial that failed stands in the place of its result.
        start_timeout: How many seconds Spark has to start the first trial.
        timeout: How many seconds all trials may take; None: any time.

    Returns:
        The results of `fn`, in the order of `grid`.

    Raises:
        PeerFailedError: If trials have failed, that of the first of them, after all have ended. Or
            Spark has given up a task.
        KungfuError, ImportError, TypeError: As from `run`.

    Example:

    ```python
    losses = kungfu_tf.spark.trials(train, [{"lr": lr} for lr in (0.01, 0.1, 1.0)])
    ```
    """
    arguments.checked("spark.trials", fn, 1, timeout, start_timeout=start_timeout)
    listed = trial_grid.checked("spark.trials", grid)
    missing.needed("pyspark", "kungfu_tf.spark.trials")
    from pyspark.sql import SparkSession

    from kungfu_tf.engines import spark_stage, spark_task

    if not listed:
        return []
    context = (spark or SparkSession.builder.getOrCreate()).sparkContext
    numbers = context.parallelize(range(len(listed)), len(listed))
    tasks = numbers.map(spark_task.of_trials(trial_grid.orders_of(fn, listed, env)))
    seconds = math.inf if timeout is None else float(timeout)
    ended = spark_stage.collect(context, tasks, 1, start_timeout=start_timeout, timeout=seconds)
    return trial_grid.results_of(ended, listed, return_errors=return_errors)
