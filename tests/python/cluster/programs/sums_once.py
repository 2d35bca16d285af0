"""Each peer tells how many they are, by a sum."""

from __future__ import annotations

import kungfu_tf as kf

print(f"the sum is {kf.ops.all_reduce(1.0).numpy()}", flush=True)
