"""What `kungfu_tf.ray.run` and `kungfu_tf.spark.run` refuse before they start anything."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest

import kungfu_tf as kf


def run_on_spark(fn: Any, np: Any, **options: Any) -> Any:
    return kf.spark.run(fn, num_proc=np, **options)


RUNS = [kf.ray.run, run_on_spark]


@pytest.mark.parametrize(("run", "package"), [*zip(RUNS, ["ray", "pyspark"], strict=True)])
def test_an_absent_package_is_named(run: Callable[..., Any], package: str) -> None:
    if importlib.util.find_spec(package) is not None:
        pytest.skip(f"{package} is installed")
    with pytest.raises(ImportError, match=rf"^kungfu_tf\.\w+\.run needs .* pip install {package}$"):
        run(print, 2)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(
    ("fn", "np", "options", "error"),
    [
        (3, 2, {}, TypeError),
        (print, 1.5, {}, TypeError),
        (print, 0, {}, ValueError),
        (print, 2, {"timeout": 0}, ValueError),
        (print, 2, {"start_timeout": -1}, ValueError),
        (print, 2, {"restarts": -1}, ValueError),
    ],
)
def test_arguments_are_checked(
    run: Callable[..., Any], fn: Any, np: Any, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"^(ray|spark)\.run: "):
        run(fn, np, **options)


@pytest.mark.parametrize("run", RUNS)
def test_a_peer_starts_no_other_job(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUNGFU_SELF", "10.0.0.1:7")
    with pytest.raises(kf.errors.FailedPreconditionError, match=r"or call \w+\.run in it"):
        run(print, 2)


@pytest.mark.parametrize("trials", [kf.ray.trials, kf.spark.trials])
@pytest.mark.parametrize(("fn", "grid"), [(3, []), (print, {"x": [1, 2]}), (print, [1, 2])])
def test_arguments_of_trials_are_checked(trials: Callable[..., Any], fn: Any, grid: Any) -> None:
    with pytest.raises(TypeError, match=r"^(ray|spark)\.trials: "):
        trials(fn, grid)
    for option in ("timeout", "start_timeout"):
        with pytest.raises(ValueError, match=rf"^(ray|spark)\.trials: {option} must"):
            trials(print, [], **{option: -1})


@pytest.mark.parametrize(
    ("trials", "package"), [(kf.ray.trials, "ray"), (kf.spark.trials, "pyspark")]
)
def test_no_trials_start_no_engine(trials: Callable[..., Any], package: str) -> None:
    module = pytest.importorskip(package, reason=f"needs {package}: make engines")
    assert trials(print, []) == []
    if package == "ray":
        assert not module.is_initialized()
    else:
        assert module.SparkContext._active_spark_context is None
