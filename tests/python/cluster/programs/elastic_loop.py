"""Goes through 1, 4 and 2 peers within one call of a function; prints "ok" on each.

The first peer makes all steps in one call, with a loop in the graph. Newcomers are taken in within
a call of the same function; the rest they make in another call, or eagerly.
"""

from __future__ import annotations

import tensorflow as tf
from elastic_server import wait_for_change

import kungfu_tf as kf
from kungfu_tf.ops.schedule import Schedule

PLAN = "1:2,4:3,2:1"
NEXT_CALL, STEPS = 5, 8
made: list[tuple[int, int, float]] = []  # steps, with how many peers, and their means
traces = 0


def note(step: int, mean: float) -> None:
    """And waits until those are there whom the plan wants."""
    made.append((int(step), kf.size(), float(mean)))
    if kf.is_root() and kf.size() != Schedule(PLAN).at(step):
        wait_for_change()


def make_step(step: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the next step, and whether this peer takes no part any more."""
    changed, detached = kf.ops.resize(kf.ops.step_based_schedule(PLAN, step))
    if not detached:
        with tf.control_dependencies([changed]):
            step = kf.ops.broadcast(step, name="step")  # a newcomer knows none
            value = tf.cast(10 * step + kf.ops.rank(), tf.float64)
            mean = kf.ops.all_reduce(value, op="mean", name="mean")
            tf.numpy_function(note, [step, mean], [])
        step += 1
    return step, detached


@tf.function(input_signature=2 * [tf.TensorSpec([], tf.int32)])
def make_steps(step: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
    global traces
    traces += 1
    detached = False
    while step < end and not detached:
        step, detached = make_step(step)
    return step


def main() -> None:
    is_newcomer = kf.joining()
    step = make_steps(0, NEXT_CALL if is_newcomer else STEPS)
    if kf.rank() == 2:
        make_steps(step, STEPS)
    while step < STEPS and not kf.detached():
        step, _ = make_step(step)
    for step, size, mean in made:
        assert mean == 10 * step + (size - 1) / 2, made
    sizes = {step: size for step, size, _ in made}
    # Steps 2 and 5 ask for others, who may be there at once.
    planned = {0: 1, 1: 1, 3: 4, 4: 4, 6: 2, 7: 2}
    first, last = (2 if is_newcomer else 0), (5 if kf.detached() else STEPS - 1)
    expected = {step: size for step, size in planned.items() if first <= step <= last}
    assert expected.items() <= sizes.items() and len(sizes) == len(made), made
    assert traces == 1, traces
    print("ok", "detached" if kf.detached() else kf.rank(), flush=True)


if __name__ == "__main__":
    main()
