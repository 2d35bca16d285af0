"""What lies before an operation in a graph of TensorFlow 1."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

# Operations that read data, and may find that there are no more.
READERS = re.compile(r"IteratorGetNext|Dequeue|ReaderRead|Unstage|PyFunc")


def upstream(operations: Collection[Any]) -> Iterator[Any]:
    """The operations, and all that run before them."""
    waiting, seen = list(operations), set(operations)
    while waiting:
        operation = waiting.pop()
        yield operation
        for other in [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]:
            if other not in seen:
                seen.add(other)
                waiting.append(other)


def needs_input(operation: Any) -> bool:
    """Whether it runs only where a run is given a value, or data can be read."""
    return any(op.type == "Placeholder" or READERS.search(op.type) for op in upstream([operation]))
