"""The tables of patches, whatever a version of Keras or TensorFlow has renamed."""

from __future__ import annotations

import types
import warnings
from typing import Any

import pytest

from kungfu_tf import errors
from kungfu_tf.upstream import patches, versions
from kungfu_tf.upstream.patches import Owner, Patch


class Upstream:
    """A package of others', with a class and a function to patch."""

    class Trainer:
        def fit(self, epochs: int) -> str:
            return f"{epochs} epochs"

        def show(self) -> str:
            return "shown"


def twice(original: Any, trainer: Any, epochs: int) -> str:
    return original(trainer, 2 * epochs)


def louder(original: Any, trainer: Any) -> str:
    return original(trainer).upper()


TRAINER = Owner("Trainer", lambda package, name: package.Trainer)
GONE = Owner("Gone", lambda package, name: package.Gone)
FIT = Patch(TRAINER, "fit", twice, "training")
SHOW = Patch(TRAINER, "show", louder, "loud words", is_needed=False)


@pytest.fixture
def package() -> Any:
    trainer = type("Trainer", (), dict(vars(Upstream.Trainer)))
    return types.SimpleNamespace(Trainer=trainer)


def install(table: list[Patch], package: Any, is_single: bool = False, title: str = "it") -> None:
    patches.install(table, package, title, is_single_process=lambda: is_single)


def test_a_patch_gets_the_original_and_is_installed_once(package) -> None:
    install([FIT, SHOW], package)
    install([FIT, SHOW], package)
    assert package.Trainer().fit(3) == "6 epochs"
    assert package.Trainer().show() == "SHOWN"
    assert patches.original(package.Trainer, "fit")(package.Trainer(), 3) == "3 epochs"


@pytest.mark.parametrize(
    "lost", [Patch(TRAINER, "gone", twice, "x"), Patch(GONE, "fit", twice, "x")]
)
def test_without_what_is_needed_nothing_is_patched(package, lost: Patch) -> None:
    with pytest.raises(errors.UnsupportedVersionError) as raised:
        install([FIT, lost], package, title="Keras 9.9")
    assert str(raised.value).startswith("Keras 9.9 cannot be used with kungfu_tf: it has no ")
    assert lost.label in str(raised.value)
    assert versions.SUPPORTED in str(raised.value)
    assert package.Trainer().fit(3) == "3 epochs"


def test_a_process_that_is_alone_trains_without_what_is_needed(package) -> None:
    install([FIT, Patch(GONE, "fit", twice, "x")], package, is_single=True)
    assert package.Trainer().fit(3) == "3 epochs"


def test_without_a_comfort_there_is_one_warning(package) -> None:
    lost = Patch(GONE, "show", louder, "loud words", is_needed=False)
    with pytest.warns(UserWarning, match=r"^Keras 9.8 has no Gone.show \(loud words\)") as caught:
        install([FIT, lost], package, title="Keras 9.8")
        install([FIT, lost], package, title="Keras 9.8")
    assert len(caught) == 1
    assert package.Trainer().fit(3) == "6 epochs"


def test_alone_a_comfort_is_not_missed(package) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        install([Patch(GONE, "show", louder, "", is_needed=False)], package, is_single=True)


def test_what_is_only_called_stays_as_it_is(package) -> None:
    install([Patch(TRAINER, "fit", None, "x")], package)
    assert package.Trainer.fit is vars(Upstream.Trainer)["fit"]


def test_the_class_that_defines_a_method() -> None:
    derived = type("Derived", (Upstream.Trainer,), {})
    assert patches.defining(derived, "fit") is Upstream.Trainer
    with pytest.raises(LookupError, match="no class of Derived defines gone"):
        patches.defining(derived, "gone")


def test_the_class_that_a_function_makes() -> None:
    def fit() -> Any:
        return Owner, Patch

    assert patches.class_used_by(fit, "label") is Patch
    with pytest.raises(LookupError, match="uses no class with gone"):
        patches.class_used_by(fit, "gone")


@pytest.mark.parametrize(
    ("package", "version"),
    [
        ("keras", "3.3.0"),
        ("keras", "3.16.0.dev2026102704"),
        ("keras", "2.15.0"),
        ("keras", "4.0.0"),
    ],
)
def test_versions_of_keras_that_are_taken(package: str, version: str) -> None:
    versions.check_keras(package, version)


@pytest.mark.parametrize("version", ["3.2.1", "3.0.5", "2.14.0"])
def test_versions_of_keras_that_are_too_old(version: str) -> None:
    with pytest.raises(errors.UnsupportedVersionError, match=rf"^keras {version} cannot be used"):
        versions.check_keras("keras", version)


def test_a_tensorflow_that_is_too_old() -> None:
    versions.check_tensorflow("2.15.1")
    with pytest.raises(errors.UnsupportedVersionError, match=r"^TensorFlow 2\.14\.1 cannot"):
        versions.check_tensorflow("2.14.1")
