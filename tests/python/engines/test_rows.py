"""A DataFrame of Spark and a dataset of Ray, whose rows the peers train on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from sessions import Engine, ray_session, spark_session

import kungfu_tf as kf

pytestmark = pytest.mark.exhaustive
ROWS = 23  # which three peers cannot have equally many of


@pytest.fixture(scope="module", params=[ray_session, spark_session], ids=["ray", "spark"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with request.param() as session:
        yield session


def columns() -> dict[str, np.ndarray]:
    x = np.random.default_rng(3).standard_normal((ROWS, 4))
    return {"row": np.arange(ROWS), "x": x, "y": x @ np.array([[1.0], [2.0], [3.0], [4.0]])}


def training() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Functions that travel with all that they use."""
    rows_of_all = ROWS

    def fit(dataset):
        """The weights of a model after a step, in float64."""
        import keras

        keras.backend.set_floatx("float64")
        dense = keras.layers.Dense(1, kernel_initializer="ones")
        model = keras.Sequential([keras.Input((4,)), dense])
        model.compile(kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(0.1)), "mse")
        model.fit(dataset, verbose=0)
        return np.concatenate([weight.numpy().ravel() for weight in model.weights])

    def train():
        """The rows of this peer, and the weights after one step with those of all peers."""
        rows = kf.data.from_cluster(rows_of_all)
        (batch,) = rows.as_numpy_iterator()
        return batch["row"].tolist(), fit(rows.map(lambda row: (row["x"], row["y"])))

    return fit, train


def test_fit_with_dealt_rows_is_that_of_one_process(engine: Engine) -> None:
    fit, train = training()
    table = columns()
    told = engine.run(train, 3, data=engine.table(table))
    assert sorted(row for rows, _ in told for row in rows) == [*range(ROWS)]
    assert all(rows for rows, _ in told)
    if engine.name == "ray":
        assert [rows for rows, _ in told] == [[*range(7)], [*range(7, 15)], [*range(15, 23)]]

    def alone(rank):
        import tensorflow as tf

        whole = tf.data.Dataset.from_tensor_slices((table["x"], table["y"])).batch(ROWS)
        return fit(whole)

    (expected,) = kf.launch(alone, np=1)
    for _, weights in told:
        np.testing.assert_array_equal(weights, told[0][1])
        np.testing.assert_allclose(weights, expected, rtol=1e-12)


def test_a_restart_gets_its_rows_again(engine: Engine) -> None:
    def fn():
        import os
        import signal

        kf.barrier()
        if kf.rank() == 1 and os.environ["KUNGFU_RESTARTS"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
        return sum(len(batch["row"]) for batch in kf.data.from_cluster(4).as_numpy_iterator())

    assert sum(engine.run(fn, 2, data=engine.table(columns()), restarts=1)) == ROWS


def test_what_is_no_table_is_named(engine: Engine) -> None:
    with pytest.raises(TypeError, match=rf"^{engine.name}\.run: data is a .*ndarray"):
        engine.run(print, 2, data=np.zeros(3))


def test_an_rdd_is_a_table(engine: Engine) -> None:
    if engine.name != "spark":
        return
    _, train = training()
    told = engine.run(train, 2, data=engine.table(columns()).rdd)
    assert sorted(row for rows, _ in told for row in rows) == [*range(ROWS)]
