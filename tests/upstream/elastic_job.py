"""Runs Horovod's elastic programs on hosts that come and go, as its tests of them do."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import secrets
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path

import limited

_LONGEST_CHANGE = 120  # seconds until a program hears of other hosts
_ports = itertools.count(21000, 50)


@dataclasses.dataclass(frozen=True)
class Job:
    """A program that writes a line after each epoch, with a launcher for each host.

    Attributes:
        file: The program.
        hosts: "given 2,2": two hosts with two slots each. "found 2 / 2,2 / 0,2": those that another
            program finds in each epoch; in later ones the last.
        flags: The flags of kungfu-run.
        arguments: Those of the program.
        expected: For each epoch a pattern of rank 0: its rank when it started, and the size.
            "fails": the job has failed then.
    """

    file: Path
    hosts: str
    flags: str
    arguments: str
    expected: str

    def run(self, python: str, compat: str, environment: Mapping[str, str], limit: float) -> str:
        """Runs it.

        Args:
            python: The interpreter.
            compat: The names that the program needs.
            environment: Of the launchers.
            limit: The most seconds.

        Returns:
            What is wrong; nothing if it does what is expected.
        """
        folder = Path(tempfile.mkdtemp(prefix="kungfu-upstream-"))
        log = folder / "log"
        launchers = self._launchers(python, compat, folder, log)
        secret = {"KUNGFU_SECRET": secrets.token_hex(32)}  # of all hosts
        failed = limited.run(launchers, folder, {**environment, **secret}, limit)
        epochs = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        seen = [f"{epoch['start_rank']}/{epoch['size']}" for epoch in epochs]
        seen += ["fails"] * bool(failed)
        wanted = self.expected.split()
        is_right = len(seen) == len(wanted) and all(map(re.fullmatch, wanted, seen))
        return "" if is_right else f"{' '.join(seen)}; {failed or folder / 'output'}"

    def _launchers(self, python: str, compat: str, folder: Path, log: Path) -> list[list[str]]:
        kind, _, listed = self.hosts.partition(" ")
        slots = [[int(slot) for slot in epoch.split(",")] for epoch in listed.split("/")]
        most = [max(column) for column in itertools.zip_longest(*slots, fillvalue=0)]
        program = [python, str(self.file), "--logfile", str(log), *shlex.split(self.arguments)]
        found: list[str] = []
        if kind == "found":
            schedule = [[number, _lines(epoch)] for number, epoch in enumerate(slots)]
            schedule[-1][0] = None  # in later epochs, too
            program += ["--discovery-schedule", json.dumps(schedule)]
            program += ["--discovery-wait", str(_LONGEST_CHANGE)]
            found = ["--host-discovery-script", str(_script(folder / "hosts.sh", log, slots))]
        port = next(_ports)
        job = [python, "-m", "kungfu_tf.launcher", "-compat", compat, "-H", ",".join(_lines(most))]
        job += [*found, "-port-range", f"{port}-{port + 40}", *self.flags.split()]
        return [[*job, "-self", f"127.0.0.{1 + host}", *program] for host in range(len(most))]


def _lines(slots: list[int]) -> list[str]:
    """The hosts that have slots."""
    return [f"127.0.0.{1 + host}:{slot}" for host, slot in enumerate(slots) if slot]


def _script(path: Path, log: Path, slots: list[list[int]]) -> Path:
    """A program that finds the hosts of an epoch: that after the last one that was written."""
    cases = [
        f"{'*' if epoch is slots[-1] else number}) printf '%s\\n' {' '.join(_lines(epoch))} ;;"
        for number, epoch in enumerate(slots)
    ]
    lines = ["#!/bin/sh", f"case $(cat {log} 2>/dev/null | wc -l) in", *cases, "esac"]
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o755)
    return path
