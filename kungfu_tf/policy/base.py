"""The base class of policies."""

from __future__ import annotations

from kungfu_tf.policy.training import Training


class BasePolicy:
    """Adapts a training while it runs: looks at measurements, and acts.

    Derive from it, override methods, and give objects of it to `kungfu_tf.callbacks.PolicyCallback`
    or, for sessions, `kungfu_tf.hooks.PolicyHook`. Each method is called on every peer at the same
    point of the training. Its argument offers:

        training.epoch, step, trained_samples, step_time, size
        training.batch_size, learning_rate, has_made(interval)
        training.noise_scale, gradient_variance, throughput, egress_rates
        training.set_batch_size(n), set_learning_rate(rate), stop()
        training.resize(n), set_strategy(name), set_tree(parents)

    The wishes of rank 0's policies are carried out on all peers. The wishes of `before_step` are
    carried out after the step. A step is one call of the train function: with
    `steps_per_execution`, several.

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
        """Before each step; also before one that then finds no more data in this epoch."""

    def after_step(self, training: Training) -> None:
        """After each step."""

    def after_epoch(self, training: Training) -> None:
        """After the last step of each epoch."""

    def after_train(self, training: Training) -> None:
        """After the last epoch."""
