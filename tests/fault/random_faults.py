"""Faults at random moments of a job on two hosts, which replaces lost peers.

    python -m tests.fault.random_faults [--kills 200] [--stops 50] [--partitions 20] [--seed N]

Needs root, for network namespaces. A step of the job gathers what each peer has to say: the step,
the digest of all steps before, its process, and the samples that it was dealt. So all peers that
take part in a step have the same steps behind them, each once, with the same contributions; and no
sample is lost or told twice. Otherwise the job ends with an error.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.fault.conftest import Jobs, Launch
from tests.fault.hosts import A, B, Hosts, launch_on, two_hosts

PEERS = 4
# Seconds. A host is lost after 5 s without an answer. One may lie before a cut, and one behind it.
CUT = (0.5, 2.0)
PROGRAM = """
import hashlib, os, time
import kungfu_tf as kf
from tests.fault import accounted
me = os.getpid()
print("process", me, flush=True)
state, is_there = None, False
while state is None or not state["over"]:
    if kf.resize() or state is None:
        known = [one for one in kf.all_gather_object(state, name="state") if one is not None]
        assert len({one["digest"] for one in known}) < 2, known
        start = {"step": 0, "digest": "", "over": False, "account": accounted.START}
        state = known[0] if known else start
    is_over = os.path.exists("over") and kf.rank() == 0
    samples = accounted.deal(state["account"]).get(me, [])
    mine = {"who": me, "step": state["step"], "digest": state["digest"], "samples": samples}
    told = kf.all_gather_object({**mine, "over": is_over}, name="step")
    assert len({(one["step"], one["digest"]) for one in told}) == 1, told
    assert len({one["who"] for one in told}) == len(told), told
    account = accounted.after(state["account"], {one["who"]: one["samples"] for one in told})
    said = repr([(one["step"], one["who"], one["samples"]) for one in told])
    state = {
        "step": state["step"] + 1,
        "digest": hashlib.sha256((state["digest"] + said).encode()).hexdigest(),
        "over": any(one["over"] for one in told),
        "account": account,
    }
    if not is_there:
        is_there = True
        print("takes part", me, flush=True)
    if state["step"] % 20 == 0 and kf.rank() == 0:
        print("step", state["step"], flush=True)
    time.sleep(0.005)
print("end", state["step"], state["account"]["told"], state["digest"], flush=True)
"""


class Peers:
    """The processes of the job, as their lines tell."""

    def __init__(self, launches: list[Launch]) -> None:
        self._launches = launches

    def _alive(self, line: str) -> list[int]:
        """A number may be that of a foreign process by now, which has another parent."""
        out = "".join(launch.out for launch in self._launches)
        launchers = {launch.process.pid for launch in self._launches}
        pids = map(int, re.findall(rf"{line} (\d+)$", out, re.M))
        return [pid for pid in pids if lives(pid) and parent_of(pid) in launchers]

    @property
    def all(self) -> list[int]:
        return self._alive("process")

    @property
    def taking_part(self) -> list[int]:
        return self._alive("takes part")


def state_of(pid: int) -> str | None:
    """As `ps` shows it: T for one that is stopped, Z for one that has ended. None: it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return None


def parent_of(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return None


def lives(pid: int) -> bool:
    return state_of(pid) not in ("Z", None)


def used(pid: int) -> dict[str, float]:
    """What a process has in use."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    return {
        "MB": int(status["VmRSS"].split()[0]) / 1024,
        "threads": int(status["Threads"]),
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
    }


class Faults:
    """Does one fault after the other, and notes what it did.

    Args:
        hosts: The hosts of the job.
        launches: The launcher on each.
        dice: The source of chance.
    """

    def __init__(self, hosts: Hosts, launches: list[Launch], dice: random.Random) -> None:
        self._hosts = hosts
        self._launches = launches
        self._dice = dice
        self.peers = Peers(launches)
        self.done: dict[str, int] = {"kill": 0, "stop": 0, "partition": 0}
        self.cuts: list[float] = []  # seconds
        self.used: list[dict[str, float]] = []

    def inject(self, kind: str) -> None:
        self._until_enough_live()
        time.sleep(self._dice.uniform(0, 0.5))
        if kind == "partition":
            self._cut(self._dice.uniform(*CUT))
        else:
            self._signal(self._dice.choice(self.peers.all), kind)
        self.done[kind] += 1
        self.used.append(used(self._launches[0].process.pid))

    def _until_enough_live(self) -> None:
        """A peer that takes part is left, whichever is lost, and newcomers may come."""
        self._until(lambda: len(self.peers.taking_part) > 2, "too few peers take part")

    @property
    def _steps(self) -> int:
        return sum(launch.out.count("] step ") for launch in self._launches)

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + 120
        while not condition():
            ended = [launch for launch in self._launches if launch.process.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise RuntimeError(f"{what}: {self.said()}")
            time.sleep(0.02)

    def _cut(self, seconds: float) -> None:
        began = time.monotonic()
        with self._hosts.cut(A):
            time.sleep(seconds)
        self.cuts.append(time.monotonic() - began)
        # Two cuts without a step between them are one of twice the length: the host is lost. The
        # launchers, too, have sent each other within a second what has waited.
        steps = self._steps
        time.sleep(1)
        self._until(lambda: self._steps > steps + 1, "no step is made after a cut")

    def _signal(self, victim: int, kind: str) -> None:
        """Kills a peer or stops it for a while, if it has not just ended by itself."""
        number, state = (signal.SIGKILL, "Z") if kind == "kill" else (signal.SIGSTOP, "T")
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, number)
        self._until(lambda: state_of(victim) in (state, "Z", None), f"no {kind} of {victim}")
        if kind == "stop":
            time.sleep(self._dice.uniform(0.1, 3))
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGCONT)

    def said(self) -> str:
        """The end of what was printed, without what the launchers repeat of it."""
        texts = []
        for one in self._launches:
            told = [line for line in one.err.splitlines() if "kungfu-run:   " not in line]
            texts += [one.out[-2000:], "\n".join(told)[-6000:]]
        return "\n".join(texts)


@contextlib.contextmanager
def a_job() -> Iterator[tuple[Jobs, Hosts, list[Launch]]]:
    with tempfile.TemporaryDirectory() as folder, two_hosts() as hosts:
        jobs = Jobs(Path(folder))
        try:
            flags = ("-respawn", "-cooldown", "10ms-20ms")
            launches = [
                launch_on(jobs, hosts, host, PROGRAM, "s" * 64, *flags, np=PEERS) for host in (A, B)
            ]
            yield jobs, hosts, launches
        finally:
            jobs.clean()


def run(kinds: dict[str, int], seed: int) -> str:
    """Does so many faults of each kind. Returns a summary. Raises if something is wrong."""
    dice = random.Random(seed)
    plan = [kind for kind, number in kinds.items() for _ in range(number)]
    dice.shuffle(plan)
    began = time.monotonic()
    with a_job() as (jobs, hosts, launches):
        faults = Faults(hosts, launches, dice)
        for number, kind in enumerate(plan):
            try:
                faults.inject(kind)
            except RuntimeError as error:
                before = f"fault {number} ({kind}) after {plan[:number][-5:]}"
                cuts = ", ".join(f"{seconds:.2f} s" for seconds in faults.cuts)
                raise RuntimeError(f"seed {seed}, {before}, cuts {cuts}: {error}") from None
        for launch in launches:
            (launch.folder / "over").touch()
        codes = [launch.wait() for launch in launches]
        assert codes == [0, 0], (seed, codes, faults.said())
        ends = set(re.findall(r"end (\d+) (\d+) (\w+)", "".join(one.out for one in launches)))
        assert len(ends) == 1, (seed, ends)
        jobs.nothing_remains()
        lost = sum(one.err.count(" was lost: ") for one in launches)
        mended = launches[0].err.count("connections between peers broke")
    steps, samples, _ = next(iter(ends))
    return (
        f"seed {seed}: {faults.done} in {time.monotonic() - began:.0f} s; {steps} steps of "
        f"{samples} samples, {lost} peers lost, {mended} times connections made anew; the "
        f"launcher's {growth_of(faults.used)}"
    )


def growth_of(used: list[dict[str, float]]) -> str:
    """From the first quarter to the last. Raises if that is more than what peers come and go by."""
    quarter = max(1, len(used) // 4)
    growth = []
    for what, most in (("MB", 30), ("threads", 5), ("descriptors", 20)):
        first, last = (
            statistics.median(u[what] for u in part) for part in (used[:quarter], used[-quarter:])
        )
        assert last <= first + most, (what, first, last)
        growth.append(f"{what} {first:.0f} → {last:.0f}")
    return ", ".join(growth)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for kind, number in (("kills", 200), ("stops", 50), ("partitions", 20)):
        parser.add_argument(f"--{kind}", type=int, default=number)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args()
    print("seed", options.seed, flush=True)
    kinds = {"kill": options.kills, "stop": options.stops, "partition": options.partitions}
    print(run(kinds, options.seed))


if __name__ == "__main__":
    main()
