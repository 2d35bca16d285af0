"""The base class of KungFu's policies."""

from __future__ import annotations

from typing import Any


class BasePolicy:
    """Adapts a training while it runs, by variables and by calls.

    All but the first method are given the session.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes what a subclass gives it."""

    def before_train(self) -> None:
        """While the graph is made: variables and setters belong here."""

    def before_epoch(self, sess: Any) -> None:
        """Before the first step of each epoch."""

    def before_step(self, sess: Any) -> None:
        """Before each step."""

    def after_step(self, sess: Any) -> None:
        """After each step."""

    def after_epoch(self, sess: Any) -> None:
        """After the last step of each epoch."""

    def after_train(self, sess: Any) -> None:
        """After the last epoch."""
