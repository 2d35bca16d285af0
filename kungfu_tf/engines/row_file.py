"""The rows of a peer, on the way from a worker to its child.

They lie in an Arrow file without a name, which the child inherits: a kill leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator

import pyarrow as pa


@contextlib.contextmanager
def written(batches: Iterator[pa.RecordBatch], schema: pa.Schema | None = None) -> Iterator[int]:
    """Writes batches into a file in TMPDIR, which exists within the context.

    Args:
        batches: All of one schema.
        schema: It, if there may be no batch.

    Returns:
        The file's descriptor.
    """
    first = next(batches, None)
    with tempfile.TemporaryFile() as file:
        with pa.ipc.new_file(file, schema if first is None else first.schema) as writer:
            if first is not None:
                writer.write(first)
            for batch in batches:
                writer.write(batch)
        file.flush()
        yield file.fileno()
