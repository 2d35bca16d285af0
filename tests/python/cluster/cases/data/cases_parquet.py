"""Parquet files, of which each peer reads its rows."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import kungfu_tf as kf

JOBS = [{"np": 3}]
NEEDS_KERAS = False
ROWS = 23


def case_together_the_peers_read_each_row_once():
    import pyarrow as pa
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as own:
        folder = Path(kf.broadcast_object(own))
        if kf.is_root():
            for index, rows in enumerate(np.array_split(np.arange(ROWS), 2)):
                pq.write_table(pa.table({"row": rows}), folder / f"{index}.parquet")
        kf.barrier()
        read = [batch["row"] for batch in kf.data.parquet(folder, 4).as_numpy_iterator()]
        rank, size = kf.rank(), kf.size()
        expected = np.arange(ROWS * rank // size, ROWS * (rank + 1) // size)
        np.testing.assert_array_equal(np.concatenate(read), expected)
        assert kf.ops.all_gather(np.concatenate(read), concat=True).numpy().tolist() == [
            *range(ROWS)
        ]
        kf.barrier()
