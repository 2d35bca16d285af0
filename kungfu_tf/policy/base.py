"""The base class of policies."""

from __future__ import annotations

from kungfu_tf.policy.training import Training


class BasePolicy:
    """Adapts a training while it runs: reads measurements and acts on them.

    Subclass it, override some methods, and pass instances to `kungfu_tf.callbacks.PolicyCallback`
    or, for sessions, to `kungfu_tf.hooks.PolicyHook`. Each method is called on every peer at the
    same point of the training. Its argument has:

        training.epoch, step, trained_samples, step_time, size
        training.batch_size, learning_rate, has_made(interval)
        training.noise_scale, gradient_variance, throughput, egress_rates
        training.set_batch_size(n), set_learning_rate(rate), stop()
        training.resize(n), set_strategy(name), set_tree(parents)

    What rank 0's policies ask for is done on all peers; what they ask for in `before_step` is done
    after the step. With `steps_per_execution`, the step methods surround several steps: one call of
    the train function.

    Example:

    ```python
    class HalveTheRate(kf.policy.BasePolicy):
        def after_epoch(self, training):
            training.set_learning_rate(training.learning_rate / 2)

    model.fit(dataset, callbacks=[kf.callbacks.PolicyCallback([HalveTheRate()])])
    ```
    """

    def before_train(self, training: Training) -> None:
        """Before the first epoch."""

    def before_epoch(self, training: Training) -> None:
        """Before the first step of each epoch."""

    def before_step(self, training: Training) -> None:
        """Before each step, even one that then finds no more data in this epoch."""

    def after_step(self, training: Training) -> None:
        """After each step."""

    def after_epoch(self, training: Training) -> None:
        """After the last step of each epoch."""

    def after_train(self, training: Training) -> None:
        """After the last epoch."""
