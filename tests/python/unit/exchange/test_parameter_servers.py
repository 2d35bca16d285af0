"""Which optimizers parameter servers take, and what they do in a single process."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from kungfu_tf import errors
from kungfu_tf.exchange.parameter_server import ParameterServer, Way, Word, applied_of
from kungfu_tf.exchange.parcel import Parcel
from kungfu_tf.ops import store
from kungfu_tf.optimizers import ParameterServerOptimizer
from kungfu_tf.upstream import generations

keras = tf.keras
KERAS_3 = any(p.generation == 3 and p.module.Model is keras.Model for p in generations.packages())


@pytest.mark.parametrize(("staleness", "error"), [(-1, ValueError), (1.5, TypeError)])
def test_staleness_is_a_number_of_steps(staleness: float, error: type[Exception]) -> None:
    with pytest.raises(error, match="staleness"):
        ParameterServerOptimizer(keras.optimizers.SGD(), staleness=staleness)


def test_a_parcel_has_a_row_for_each_dtype() -> None:
    dtypes = [tf.float32, tf.float64, tf.float32]
    variables = [
        tf.Variable(tf.zeros(shape, dtype))
        for shape, dtype in zip([(2, 3), (2,), ()], dtypes, strict=True)
    ]
    parcel = Parcel(variables)
    values = [np.arange(6.0).reshape(2, 3), np.array([7.0, 8.0]), np.array(9.0)]
    rows = parcel.pack([tf.constant(v, d) for v, d in zip(values, dtypes, strict=True)])
    assert {d.name: row.numpy().tolist() for d, row in rows.items()} == {
        "float32": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 9.0],
        "float64": [7.0, 8.0],
    }
    assert {d: parcel.length(d) for d in rows} == {tf.float32: 7, tf.float64: 2}
    for value, unpacked in zip(values, parcel.unpack(list(rows.values())), strict=True):
        np.testing.assert_array_equal(unpacked, value)


def test_sparse_gradients_become_dense() -> None:
    rows = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([2, 2]), tf.constant([3, 1]))
    [row] = Parcel([tf.Variable(tf.zeros([3, 1]))]).pack([rows]).values()
    np.testing.assert_array_equal(row, [0.0, 0.0, 3.0])


def test_the_first_failure_is_told() -> None:
    """Whatever comes of it. A peer that waits for the step before, or the next one, is released."""
    way = Way("failing", 0, 0)

    def apply(gradients: list[tf.Tensor]) -> None:
        tf.debugging.assert_less(gradients[0], 2.0, "the first")

    server = ParameterServer("failing", [tf.Variable(0.0)], apply, None)
    for gradient in (1.0, 2.0):
        way.say(Word.PUSH)
        way.rows(tf.float32).put(tf.constant([gradient]))
    server.start()
    with pytest.raises(tf.errors.InvalidArgumentError, match="the first"):
        server.join()
        server.check()
    for step in (1, 2):
        store.request_group(0, [tf.TensorSpec([], tf.int64)], applied_of("failing", 0), step)
    server._fail(ValueError("another one"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="the first"):
        server.check()


if KERAS_3:  # These are not skipped elsewhere: there is nothing to test.

    @pytest.mark.parametrize(
        "option", [{"global_clipnorm": 1.0}, {"gradient_accumulation_steps": 2}]
    )
    def test_an_owner_sees_one_push_of_its_variables(option: dict[str, float]) -> None:
        with pytest.raises(errors.UnimplementedError, match=next(iter(option))):
            ParameterServerOptimizer(keras.optimizers.SGD(**option))

    def test_a_loss_scale_is_refused() -> None:
        scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD())
        with pytest.raises(errors.UnimplementedError, match="a loss scale"):
            ParameterServerOptimizer(scaled)

    def test_alone_it_is_the_plain_optimizer() -> None:
        trained = []
        for wrap in (lambda o: ParameterServerOptimizer(o, staleness=3), lambda o: o):
            keras.utils.set_random_seed(1)
            model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
            model.compile(wrap(keras.optimizers.Adam(0.1)), "mse")
            model.fit(np.ones([8, 2]), np.ones([8, 1]), epochs=2, verbose=0)
            trained.append(model.get_weights())
        np.testing.assert_array_equal(*(np.concatenate([w.ravel() for w in t]) for t in trained))

else:

    def test_optimizers_of_keras_2_are_refused() -> None:
        with pytest.raises(TypeError, match="an optimizer of Keras 3"):
            ParameterServerOptimizer(keras.optimizers.SGD())
