"""A job, as one runner knows it."""

import dataclasses
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from kungfu_tf.launcher.options.command_line import Options
from kungfu_tf.launcher.placing.cluster import Cluster
from kungfu_tf.launcher.placing.core_shares import UNBOUND, Binding
from kungfu_tf.launcher.placing.gpu_placement import Placement
from kungfu_tf.launcher.processes.run_directory import RunDirectory
from kungfu_tf.links.credentials import Credentials
from kungfu_tf.links.given_secret import Secret


@dataclasses.dataclass(frozen=True)
class Job:
    """The common properties of all peers of this host.

    Attributes:
        cluster: The peers and hosts of the job.
        credentials: Its id and its secret.
        directory: The run directory of this runner.
        placement: The GPU of each peer.
        options: The options of the command line.
        config_token: The user's token for a config server.
        binding: The cores that each peer stays on.
        inherited: Descriptors that each peer inherits.
        restarts: How often the job was started anew.
        recoveries: How often of these after a failure.
        progress: The progress of the peers before the last restart.
        epochs: The epochs that ended before the failures.
        early_failure: That of the previous failure, if no collective had succeeded by then.
        began: The time of the first start.
    """

    cluster: Cluster
    credentials: Credentials
    directory: RunDirectory
    placement: Placement
    options: Options
    config_token: Secret | None = None
    binding: Binding = UNBOUND
    inherited: Sequence[int] = ()
    restarts: int = 0
    recoveries: int = 0
    progress: int = 0
    epochs: int = 0
    early_failure: int | None = None
    began: float = dataclasses.field(default_factory=time.monotonic)

    def describe(self) -> None:
        """Writes the process and the command into a file, for other commands of this user."""
        content = {"pid": os.getpid(), "command": self.options.command}
        Path(self.directory.job).write_text(json.dumps(content))
