"""A job as one runner runs it."""

import dataclasses
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from kungfu_tf.launcher.channels.credentials import Credentials
from kungfu_tf.launcher.options.command_line import Options
from kungfu_tf.launcher.options.given_secrets import Secret
from kungfu_tf.launcher.placing.cluster import Cluster
from kungfu_tf.launcher.placing.gpu_placement import Placement
from kungfu_tf.launcher.processes.run_directory import RunDirectory


@dataclasses.dataclass(frozen=True)
class Job:
    """The properties that all peers of this host have in common.

    `config_token`: the user's token for a config server. `cores`: those that each stays on, by
    local rank; empty: on none. `inherited` are descriptors that each gets. `restarts`: how often
    the job was started anew, `recoveries` of them after a failure. `progress`: how far it was then.
    `epochs`: those that it had ended before its failures. `early_failure`: the exit code of the
    failure before, if no peer was up by then.
    `began`: the time of the first start.
    """

    cluster: Cluster
    credentials: Credentials
    directory: RunDirectory
    placement: Placement
    options: Options
    config_token: Secret | None = None
    cores: Sequence[frozenset[int]] = ()
    inherited: Sequence[int] = ()
    restarts: int = 0
    recoveries: int = 0
    progress: int = 0
    epochs: int = 0
    early_failure: int | None = None
    began: float = dataclasses.field(default_factory=time.monotonic)

    def describe(self) -> None:
        """Writes down for other commands of this user what runs here, and in which process."""
        content = {"pid": os.getpid(), "command": self.options.command}
        Path(self.directory.job).write_text(json.dumps(content))
