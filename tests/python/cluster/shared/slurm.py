"""Slurm on this machine: a controller, and several nodes that are processes."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from pathlib import Path

from tests import ports, waiting

NODES = [f"127.0.0.{number}" for number in range(2, 6)]
CPUS = 4  # of a node, whatever the machine has

_CONFIG = """
ClusterName=test
SlurmctldHost=localhost
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0
NodeName=DEFAULT CPUs={cpus}
NodeName={nodes} NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{first}-{end}]
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def why_not() -> str | None:
    """The reason if Slurm cannot be started here."""
    needed = ("slurmctld", "slurmd", "srun", "munged")
    if os.geteuid() != 0 or any(shutil.which(name) is None for name in needed):
        return "needs root, and slurm-wlm and munge of Debian"
    return None


class Slurm:
    """A cluster, from its start to `stop`.

    Args:
        folder: An empty folder with a short path.
    """

    def __init__(self, folder: Path) -> None:
        self.environ = {"SLURM_CONF": str(folder / "slurm.conf")}
        self._folder = folder
        self._daemons: list[subprocess.Popen[bytes]] = []
        first = ports.take(len(NODES) + 1)[0]
        numbers = {"port": first, "first": first + 1, "end": first + len(NODES)}
        text = _CONFIG.format(folder=folder, nodes=",".join(NODES), cpus=CPUS, **numbers)
        (folder / "slurm.conf").write_text(text)
        (folder / "state").mkdir()
        key = folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))

    def start(self) -> None:
        munge = [f"--{name}-file={self._folder}/munge.{name}" for name in ("key", "pid", "seed")]
        socket = self._folder / "munge.socket"
        log = f"--log-file={self._folder}/munge.log"
        self._begin("munged", "--force", "--foreground", *munge, log, f"--socket={socket}")
        waiting.until(socket.exists, self._said)
        self._begin("slurmctld", "-D")
        for node in NODES:
            self._begin("slurmd", "-D", "-N", node)
        waiting.until(lambda: self._idle() == len(NODES), self._said)

    def stop(self) -> None:
        self.call("scancel", "--user=root")
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            daemon.wait(60)

    def call(self, *command: str) -> str:
        """What one of Slurm's commands prints, whether it fails or not."""
        told = subprocess.run(
            command, env=self._environ(), capture_output=True, text=True, timeout=60
        )
        return told.stdout + told.stderr

    def _idle(self) -> int:
        return self.call("sinfo", "--noheader", "--Node", "--format=%t").split().count("idle")

    def _said(self) -> str:
        logs = [self._folder / f"log-{number}" for number in range(len(self._daemons))]
        return "Slurm is up: " + "".join(log.read_text()[-2000:] for log in logs)

    def _environ(self) -> dict[str, str]:
        return {**os.environ, **self.environ}

    def _begin(self, *command: str) -> None:
        with open(self._folder / f"log-{len(self._daemons)}", "wb") as log:
            self._daemons.append(
                subprocess.Popen(command, env=self._environ(), stdout=log, stderr=log)
            )
