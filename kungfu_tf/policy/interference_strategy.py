"""Changes the strategy when other traffic slows the network down."""

from __future__ import annotations

from collections.abc import Sequence

from kungfu_tf.monitor import measurements, statistics
from kungfu_tf.policy.base import BasePolicy
from kungfu_tf.policy.training import Training, strategy_named


class InterferenceStrategyPolicy(BasePolicy):
    """Switches to the next strategy when most peers see the current one slow down.

    A peer sees that when its throughput falls below `threshold` times the best that it has had with
    these peers and this strategy (KungFu: Mai et al., OSDI 2020, section 6.3). Train with an
    optimizer that monitors: `SynchronousSGDOptimizer(optimizer, monitor=True)`.

    Args:
        strategies: The names of the strategies to try, in turn.
        interval: How often it checks, in steps.
        threshold: Between 0 and 1.

    Raises:
        ValueError: If a strategy does not exist, or a number is out of range.

    Example:

    ```python
    policy = kf.policy.InterferenceStrategyPolicy(["RING", "BINARY_TREE", "CLIQUE"])
    model.fit(dataset, callbacks=[kf.callbacks.PolicyCallback([policy])])
    ```
    """

    def __init__(
        self, strategies: Sequence[str], *, interval: int = 100, threshold: float = 0.8
    ) -> None:
        if not strategies:
            raise ValueError("InterferenceStrategyPolicy: there are no strategies to choose from")
        if isinstance(strategies, str):
            raise ValueError(
                f"InterferenceStrategyPolicy: it takes a list of strategies, not {strategies!r}"
            )
        if interval < 1:
            raise ValueError(
                f"InterferenceStrategyPolicy: interval is a number of steps, not {interval!r}"
            )
        if not 0 < threshold < 1:
            raise ValueError(
                f"InterferenceStrategyPolicy: threshold is between 0 and 1, not {threshold!r}"
            )
        self.strategies = [strategy_named(strategy) for strategy in strategies]
        self.interval = interval
        self.threshold = threshold

    def after_step(self, training: Training) -> None:
        """Every `interval` steps, measures and lets the peers vote."""
        if not training.has_made(self.interval):
            return
        statistics.calc_stats()
        if not statistics.check_interference(threshold=self.threshold):
            return
        used = measurements.strategy()
        place = self.strategies.index(used) if used in self.strategies else -1
        training.set_strategy(self.strategies[(place + 1) % len(self.strategies)])
