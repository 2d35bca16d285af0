"""How far a training has come while peers come and go.

```python
state = ElasticState(max_progress=1000)
while not state.stopped():
    with ElasticContext(state) as should_sync:
        if should_sync:
            broadcast_variables(variables)
        train(state.progress)
print(state.stop_reason())
```
"""

from __future__ import annotations

from typing import Any

import kungfu_tf as kf
from kungfu_tf import elastic

__all__ = ["ElasticContext", "ElasticState"]


class ElasticState(elastic.ElasticState):
    """The progress, the same on all peers.

    Args:
        max_progress: The progress at which training ends; None: the program ends it.
        full_reload: Whether all peers are started anew with another number of them: kungfu-run
            -elastic-mode reload. Then the training continues where it was.
    """

    def __init__(self, max_progress: int | None = None, full_reload: bool = False) -> None:
        super().__init__(max_progress or None, progress=kf.init_progress())
        self._full_reload = full_reload

    @property
    def _progress(self) -> int:
        """The progress, by the name that KungFu's programs read."""
        return self.progress

    def end(self, delta_progress: int = 1) -> None:
        """Ends a step.

        Args:
            delta_progress: How much the step did.
        """
        super().end(delta_progress)

    def stop_reason(self) -> str | None:
        """Returns "finished", "detached", or "reload" if all are started anew."""
        reason = super().stop_reason()
        return "reload" if reason == "detached" and self._full_reload else reason


class ElasticContext:
    """A step of it. An error leaves it as it is."""

    def __init__(self, elastic_state: ElasticState, delta_progress: int = 1) -> None:
        self._elastic_state = elastic_state
        self._delta_progress = delta_progress

    def __enter__(self) -> bool:
        return self._elastic_state.begin()

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if kind is None:
            self._elastic_state.end(self._delta_progress)
