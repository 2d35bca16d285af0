"""A hook whose number of peers follows a schedule of steps."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf import hooks

__all__ = ["KungFuElasticTrainHook"]


class KungFuElasticTrainHook(hooks.ElasticHook):
    """Lets other peers take part between two steps, and ends the training after some step.

    Args:
        schedule: "4:100,8:200": 4 peers for 100 steps, then 8 for 200, and from then on.
        max_step: The global step that the training ends after.
        model_dir: The folder of the file below.
        save_final_model: Whether the variables are written to variables-final.npz at the end.
    """

    def __init__(
        self, schedule: str, max_step: int, model_dir: str, save_final_model: bool = False
    ) -> None:
        super().__init__(schedule, max_step)
        self._model_dir = model_dir
        self._save_final_model = save_final_model

    def end(self, session: Any) -> None:
        """Writes the variables, if they are wanted."""
        super().end(session)
        if self._save_final_model:
            self.save(session, "final")

    def save(self, sess: Any, idx: Any) -> None:
        """Writes the variables to variables-`idx`.npz.

        Args:
            sess: The session that has them.
            idx: Part of the file's name.
        """
        variables = {v.name: v for v in tf.compat.v1.global_variables()}
        path = os.path.join(self._model_dir, f"variables-{idx}.npz")
        np.savez(path, **sess.run(variables))
