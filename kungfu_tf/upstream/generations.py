"""The differences between the generations of Keras, in one place.

A process may have several packages: `keras` (2 or 3) and `tf_keras`. An object belongs to a package
that has been imported already, so nothing here imports one.
"""

from __future__ import annotations

import collections
import functools
import importlib
import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from kungfu_tf.upstream import patches, versions

if TYPE_CHECKING:
    Base = Any
else:
    Base = object
"""The base of classes that are mixed into classes of any Keras package."""


class Package(NamedTuple):
    """One Keras package of this process."""

    module: ModuleType
    generation: int  # 2 (also tf_keras) or 3

    @property
    def title(self) -> str:
        """Its name and version, for messages."""
        return f"{self.module.__name__} {self.module.__version__}"

    @property
    def version(self) -> tuple[int, int]:
        """Its major and minor version."""
        return versions.major_and_minor(self.module.__version__)

    def private(self, name: str) -> ModuleType:
        """The module `<package>.src.<name>`."""
        return importlib.import_module(f"{self.module.__name__}.src.{name}")


def packages() -> list[Package]:
    """The Keras packages that are imported. `tf_keras` is of generation 2, whatever its version.

    Raises:
        UnsupportedVersionError: One of them is too old.
    """
    found = []
    for name in ("keras", "tf_keras"):
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "__version__"):
            versions.check_keras(name, module.__version__)
            is_three = name == "keras" and int(module.__version__.split(".")[0]) >= 3
            found.append(Package(module, 3 if is_three else 2))
    return found


def registries() -> Iterator[dict[Any, str]]:
    """The dicts in which Keras looks up the name under which a class is saved."""
    purpose = "a saved optimizer is opened by its public name"
    for package in packages():
        for module, name in _REGISTRIES[package.generation]:
            find = functools.partial(_attribute, package, module, name)
            found = patches.comfort(package.title, f"{module}.{name}", purpose, find)
            if found is not None:
                yield found


_REGISTRIES = {
    2: [("saving.object_registration", "_GLOBAL_CUSTOM_NAMES")],
    3: [
        ("saving.object_registration", "GLOBAL_CUSTOM_NAMES"),
        ("api_export", "REGISTERED_OBJS_TO_NAMES"),
    ],
}


def _attribute(package: Package, module: str, name: str) -> Any:
    return getattr(package.private(module), name)


def subclass(mixin: type, base: type, **members: Any) -> type:
    """A subclass of both classes that Keras saves under the name of `base`.

    Args:
        mixin: The class that comes before `base`.
        base: A class of Keras, or one derived from it.
        **members: Attributes of the new class.
    """
    # Keras 2 keeps a class' public name in its body.
    names = ("__doc__", "__module__", "_keras_api_names", "_keras_api_names_v1")
    body = {name: base.__dict__[name] for name in names if name in base.__dict__}
    body["__qualname__"] = base.__qualname__
    body["_kungfu_base"] = base
    cls = type(base.__name__, (mixin, base), {**body, **members})
    for names_of_classes in registries():
        if base in names_of_classes:
            names_of_classes[cls] = names_of_classes[base]
    return cls


def plain_class(cls: type) -> type:
    """The class that a class was made from by `subclass`; any other class as it is."""
    while "_kungfu_base" in vars(cls):
        cls = vars(cls)["_kungfu_base"]
    return cls


def package_of(model: Any) -> Package:
    """The package that `model` was built with."""
    for package in packages():
        if isinstance(model, package.module.Model):
            return package
    raise TypeError(f"not a Keras model: {type(model).__module__}.{type(model).__name__}")


def package_of_optimizer(optimizer: Any) -> Package:
    """The package that an optimizer is of."""
    for package in packages():
        known = package.module.optimizers
        legacy = [known.legacy.Optimizer] if package.generation == 2 else []
        if isinstance(optimizer, (known.Optimizer, *legacy)):
            return package
    raise TypeError(
        f"not a Keras optimizer: {type(optimizer).__module__}.{type(optimizer).__name__}"
    )


def native(variable: Any) -> Any:
    """The tf.Variable behind a Keras 3 variable; any other variable as it is."""
    return variable if callable(variable.value) else variable.value


def only_variables(weights: Iterable[Any]) -> Iterator[Any]:
    """The weights that are variables. Keras 2 counts vocabularies among the weights."""
    return (weight for weight in weights if hasattr(weight, "value"))


def name_of(variable: Any) -> str:
    """A name for messages. It may differ between peers, so it must not name a collective."""
    return str(getattr(variable, "path", None) or variable.name)


def parts_of(optimizer: Any) -> Iterator[Any]:
    """The optimizer, and those to which it delegates (loss scale, several optimizers)."""
    yield optimizer
    inside = [getattr(optimizer, "inner_optimizer", None)]
    inside += getattr(optimizer, "optimizers", None) or []
    for part in inside:
        if part is not None:
            yield from parts_of(part)


def algorithms_of(optimizer: Any) -> list[Any]:
    """The `kungfu_tf.optimizers.Algorithm`s of an optimizer and of its parts."""
    parts = [part for part in parts_of(optimizer) if hasattr(part, "kungfu_algorithm")]
    return [part.kungfu_algorithm for part in parts]


def is_wrapped(optimizer: Any) -> bool:
    """Whether an optimizer, or a part of it, has an algorithm."""
    return bool(algorithms_of(optimizer))


def optimizers_of(model: Any) -> list[Any]:
    """The optimizers that train a model.

    They are the wrapped optimizers in its attributes, also in lists and dicts. If the model has a
    train step of its own, those of the models inside it count, too. If no optimizer is wrapped, it
    is the one that the model is compiled with.
    """
    holders = model._flatten_layers() if has_own_train_step(model) else [model]
    held = {id(o): o for holder in holders for o in _optimizers_in(vars(holder))}
    wrapped = [optimizer for optimizer in held.values() if is_wrapped(optimizer)]
    compiled_with = getattr(model, "optimizer", None)
    return wrapped or ([] if compiled_with is None else [compiled_with])


def _optimizers_in(container: Any) -> Iterator[Any]:
    waiting, seen = collections.deque([container]), set()
    while waiting:
        value = waiting.popleft()
        if hasattr(value, "apply_gradients"):
            yield value
        elif isinstance(value, (list, tuple, dict)) and id(value) not in seen:
            seen.add(id(value))
            waiting.extend(value.values() if isinstance(value, dict) else value)


def steps_of(model: Any) -> int:
    """How many steps a model's first optimizer has made."""
    [optimizer, *_] = optimizers_of(model)
    return int(native(optimizer.iterations).numpy())


def steps_per_execution(model: Any) -> int:
    """How many steps one call of the train function makes."""
    steps: Any = getattr(model, "_steps_per_execution", None)  # Keras 2: a variable
    steps = getattr(model, "steps_per_execution", 1) if steps is None else steps
    return int(steps.numpy() if hasattr(steps, "numpy") else steps)


def algorithms_of_model(model: Any) -> list[Any]:
    """The algorithms of the optimizers that train a model."""
    return [a for optimizer in optimizers_of(model) for a in algorithms_of(optimizer)]


def group_of_model(model: Any) -> Any:
    """The group of peers (`kungfu_tf.Group`) that train a model; None: all do.

    Raises:
        ValueError: If its optimizers have different ones.
    """
    groups = {id(a.group): a.group for a in algorithms_of_model(model)}
    if len(groups) > 1:
        raise ValueError(
            "the optimizers of a model are of one group of peers, and these are of "
            + ", ".join("all peers" if group is None else repr(group) for group in groups.values())
        )
    return next(iter(groups.values()), None)


def has_own_train_step(model: Any) -> bool:
    """Whether the model trains by a `train_step` that is not Keras'."""
    own = vars(model).get("train_step")
    if own is not None and not hasattr(own, "kungfu_counts"):
        return True
    keras_models = package_of(model).module.Model.__mro__
    return not any(type(model).train_step is vars(cls).get("train_step") for cls in keras_models)


def variables_of(optimizer: Any) -> list[Any]:
    """The optimizer's state: slots, iterations, learning rate."""
    variables = getattr(optimizer, "variables", [])
    found = list(variables() if callable(variables) else variables)
    known = {id(v) for v in found}
    return found + [rate for rate in _rates_of(optimizer) if id(rate) not in known]


def _rates_of(optimizer: Any) -> Iterator[Any]:
    """The variables that Keras 2 does not count among an optimizer's.

    These are the learning rate, and all numbers of legacy optimizers that can be set.
    """
    for part in parts_of(optimizer):
        hypers = vars(part).get("_hyper", {})
        for value in [vars(part).get("_learning_rate"), *(hypers[name] for name in sorted(hypers))]:
            if hasattr(value, "read_value"):
                yield value


def shared_variables_of(optimizer: Any) -> list[Any]:
    """The optimizer's state without accumulators, which hold this peer's own gradients."""
    gathered = [getattr(part, "_accumulated_gradients", None) for part in parts_of(optimizer)]
    own = {id(v) for accumulators in gathered for v in accumulators or []}
    return [v for v in variables_of(optimizer) if id(v) not in own]


def moved_variables(model: Any) -> Iterator[tuple[Any, Any]]:
    """The variables that layers update themselves, such as moving statistics, with their layers.

    Left out are trained and frozen variables, and those that are the same on all peers. These have
    the attribute `_kungfu_equal`, or their layer has it.
    """
    yield from moved_variables_in(model._flatten_layers())


def moved_variables_in(layers: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """`moved_variables` of these layers alone."""
    for layer in layers:
        # Frozen variables are not among them.
        of_keras_3 = getattr(layer, "_non_trainable_variables", None)
        own = layer._non_trainable_weights if of_keras_3 is None else of_keras_3
        for variable in only_variables(own):
            if not getattr(layer, "_kungfu_equal", getattr(variable, "_kungfu_equal", False)):
                yield layer, native(variable)


def innermost(optimizer: Any) -> Any:
    """The optimizer inside one that scales the loss; any other optimizer as it is."""
    while getattr(optimizer, "inner_optimizer", None) is not None:
        optimizer = optimizer.inner_optimizer
    return optimizer


def build(optimizer: Any, variables: list[Any]) -> None:
    """Creates the slots for `variables`, unless they exist."""
    if hasattr(optimizer, "_create_all_weights"):  # Keras 2, legacy
        optimizer._create_all_weights(variables)
    elif not getattr(optimizer, "built", False):
        optimizer.build(variables)
