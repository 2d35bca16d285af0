"""A call of `fit`, with all that is known of it."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any

from kungfu_tf import context, peer
from kungfu_tf.context.meets import Meets
from kungfu_tf.keras.fit import given_callbacks
from kungfu_tf.upstream import generations

if TYPE_CHECKING:
    from kungfu_tf.keras.fit.elastic_run import ElasticRun
    from kungfu_tf.keras.fit.even_data import EvenData
    from kungfu_tf.keras.fit.step_logs import StepLogs
    from kungfu_tf.keras.saving.own_parts import OwnParts
    from kungfu_tf.membership.notice import Notice


@dataclasses.dataclass
class Fit:
    """A call of `fit`, in which all peers may take part.

    Lower rooms see only a part of it, `context.running_fit.RunningFit`.

    Attributes:
        model: The model that is trained.
        is_shared: Whether all peers train it.
        averages: Whether its metrics are those of all peers.
        x: The data that the program gave.
        steps_per_epoch: The argument of that name.
        saves_after_batches: Whether rank 0 saves in the middle of epochs.
        backs_up: Whether rank 0 saves state of which each peer has a part.
        own_parts: What each peer writes at a backup; None if the peers are equal.
        data: What the model is trained on; None until Keras has looked at `x`.
        meets: How often the peers meet. A `fit` that counts the samples of all peers, for policies
            or because peers come and go, does so in every step.
        differs: Whether each peer trains a model of its own.
        elastic_run: The elastic training that this call is a part of; None if peers stay the same.
        batch_size: The first batch size of a peer, if policies may change it; 0: the size that the
            data have. None: no policy may.
        average: Open while the model holds the average of all peers' models.
        background_iterators: Open while there may be iterators of the data.
        steps_per_execution: The program's own setting, while Keras is given a smaller one.
        has_warned_of_divisor: Whether there was a warning of a loss that is no mean over samples.
        has_warned_of_sum: Whether there was a warning of an added loss that is a sum over them.
        step_logs: The callback that knows the logs of a step, if others may add to them.
        notice: What SIGTERM has asked of this peer; None: SIGTERM ends it at once.
    """

    model: Any
    is_shared: bool
    averages: bool
    x: Any = None
    steps_per_epoch: int | None = None
    saves_after_batches: bool = False
    backs_up: bool = False
    own_parts: OwnParts | None = None
    data: EvenData | None = None
    meets: Meets = Meets.EVERY_STEP
    differs: bool = False
    elastic_run: ElasticRun | None = None
    batch_size: int | None = None
    average: contextlib.ExitStack = dataclasses.field(default_factory=contextlib.ExitStack)
    background_iterators: contextlib.ExitStack = dataclasses.field(
        default_factory=contextlib.ExitStack
    )
    steps_per_execution: int | None = None
    has_warned_of_divisor: bool = False
    has_warned_of_sum: bool = False
    step_logs: StepLogs | None = None
    notice: Notice | None = None

    @classmethod
    def of(
        cls, model: Any, x: Any, callbacks: list[Any], steps_per_epoch: int | None = None
    ) -> Fit:
        """The call with these arguments, in the present surroundings.

        Args:
            model: A compiled Keras model.
            x: The data that the program gave.
            callbacks: The callbacks that the program gave.
            steps_per_epoch: The argument of that name.
        """
        is_shared = _is_shared(model, callbacks)
        elastic_run: Any = context.current().elastic_run if is_shared else None
        first_size = given_callbacks.first_batch_size(callbacks)
        algorithms = generations.algorithms_of_model(model)
        return cls(
            model,
            is_shared,
            averages=is_shared or given_callbacks.averages_metrics(callbacks),
            x=x,
            steps_per_epoch=steps_per_epoch,
            meets=meets_of(model, counts_samples=bool(elastic_run) or first_size is not None),
            differs=any(not algorithm.keeps_equal for algorithm in algorithms),
            elastic_run=elastic_run,
            batch_size=first_size if elastic_run is None else elastic_run.batch_size,
        )


def current() -> Fit | None:
    """The innermost call that runs. None outside, and in the program's own work within it."""
    fit = context.current().fit
    assert fit is None or isinstance(fit, Fit)
    return fit


def meets_of(model: Any, *, counts_samples: bool = False) -> Meets:
    """How often the peers that train this model meet.

    Args:
        model: A compiled model.
        counts_samples: Whether all peers learn in each step how many samples it has.
    """
    if peer.is_single_process():
        return Meets.EVERY_STEP
    meets = Meets.of_all(a.meets for a in generations.algorithms_of_model(model))
    return Meets.EVERY_STEP if counts_samples and meets is Meets.SOMETIMES else meets


def _is_shared(model: Any, callbacks: list[Any]) -> bool:
    if peer.is_single_process():
        is_elastic = context.current().elastic_run is not None
        algorithms = generations.algorithms_of_model(model)
        has_other_model = any(a.meets is Meets.SOMETIMES for a in algorithms)  # as DiLoCo alone
        has_policies = given_callbacks.first_batch_size(callbacks) is not None
        return is_elastic or has_policies or has_other_model
    is_custom = given_callbacks.has_ours(callbacks) and generations.has_own_train_step(model)
    return is_custom or bool(generations.algorithms_of_model(model))
