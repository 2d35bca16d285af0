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

import kungfu_tf as kf
from kungfu_tf import elastic

__all__ = ["ElasticContext", "ElasticState"]


class ElasticState(elastic.ElasticState):
    """The progress, the same on all peers.

    Args:
        max_progress: The progress at which training ends; None: the program ends it.
        reload: Whether the training continues where the previous processes left it, if all start
            anew with another size: kungfu-run -elastic-mode reload.
    """

    def __init__(self, max_progress: int | None = None, reload: bool = False) -> None:
        super().__init__(max_progress, progress=kf.init_progress() if reload else 0)

    @property
    def _progress(self) -> int:
        """The progress, by the name that KungFu's programs read."""
        return self.progress


class ElasticContext(elastic.ElasticContext):
    """A step of it."""

    def __init__(self, elastic_state: ElasticState) -> None:
        super().__init__(elastic_state)
