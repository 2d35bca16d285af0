"""Threads and cores of the peers of one host."""

import os
import subprocess
import sys

import pytest

from kungfu_tf.launcher.placing import core_shares
from kungfu_tf.launcher.placing.core_shares import Binding, Cores


@pytest.mark.parametrize(
    ("cores", "peers", "computing", "scheduling"),
    [(2, 1, None, None), (2, 2, "1", "2"), (2, 4, "1", "2"), (16, 4, "4", "4"), (7, 2, "3", "3")],
)
def test_peers_share_the_cores(
    monkeypatch: pytest.MonkeyPatch,
    cores: int,
    peers: int,
    computing: str | None,
    scheduling: str | None,
) -> None:
    monkeypatch.setattr(core_shares, "cores", lambda: Cores(range(cores), cores))
    variables = core_shares.shared_by(peers, {})
    assert variables.get("OMP_NUM_THREADS") == computing
    assert variables.get("TF_NUM_INTRAOP_THREADS") == computing
    assert variables.get("TF_NUM_INTEROP_THREADS") == scheduling


@pytest.mark.parametrize("words", [[], ["-q"]])
def test_threads_are_told_of(words: list[str]) -> None:
    environ = {k: v for k, v in os.environ.items() if not k.endswith("_THREADS")}
    command = [sys.executable, "-m", "kungfu_tf.launcher", *words, "-np", "2", "true"]
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("TF_NUM_INTRAOP_THREADS=") == (not words), ended.stderr


def test_what_is_told() -> None:
    bound, unbound = Binding([frozenset({0})]), Binding((), "there are 8 peers")
    own = "each stays on its own cores, unless KUNGFU_BIND_TO is none"
    assert core_shares.describe({"A": "1"}, bound).endswith(
        f": each gets A=1, unless you set these variables; {own}"
    )
    assert core_shares.describe({}, bound).endswith(f": {own}")
    shared = "each stays on a core with 3 others, unless KUNGFU_BIND_TO is none"
    four = Binding([frozenset({0})] * 4, sharers=4)
    assert core_shares.describe({}, four).endswith(f": {shared}")
    assert core_shares.describe({}, unbound).endswith(
        ": they are bound to no cores: there are 8 peers"
    )


@pytest.mark.parametrize(("number", "computing"), [(1, "1"), (2, "1"), (8, "4"), (16, "8")])
def test_a_quota_is_shared_and_nobody_is_bound(
    monkeypatch: pytest.MonkeyPatch, number: int, computing: str
) -> None:
    monkeypatch.setattr(core_shares, "cores", lambda: Cores(range(16), number))
    assert core_shares.shared_by(2, {})["OMP_NUM_THREADS"] == computing
    binding = core_shares.bound(2, {})
    assert bool(binding.cores) == (number == 16)
    said = f"they are bound to no cores: a quota leaves {number} of 16" in core_shares.describe(
        {"A": "1"}, binding
    )
    assert said == (number < 16)


@pytest.mark.parametrize(
    ("cores", "peers", "bound"),
    [
        (2, 1, []),
        (2, 2, [{0}, {1}]),
        (2, 3, []),
        (2, 4, [{0}, {1}, {0}, {1}]),
        (2, 6, [{0}, {1}] * 3),
        (8, 3, [{0, 1, 6, 7}, {2, 3, 6, 7}, {4, 5, 6, 7}]),
    ],
)
def test_each_peer_has_cores_of_its_own(
    monkeypatch: pytest.MonkeyPatch, cores: int, peers: int, bound: list[set[int]]
) -> None:
    monkeypatch.setattr(core_shares, "cores", lambda: Cores(range(cores), cores))
    assert list(core_shares.bound(peers, {}).cores) == bound
    assert list(core_shares.bound(peers, core_shares.shared_by(peers, {})).cores) == bound
    for own in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        assert list(core_shares.bound(peers, {own: "1"}).cores) == bound


@pytest.mark.parametrize(
    ("peers", "environ", "may_change", "why_not"),
    [
        (1, {}, False, "there is no other peer"),
        (9, {}, False, "there are 9 peers"),
        (2, {}, True, "with -w the number of peers may change"),
        (2, {"KUNGFU_BIND_TO": "none"}, False, "KUNGFU_BIND_TO is none"),
        (2, {"OMP_PROC_BIND": "false"}, False, "you have set OMP_PROC_BIND"),
        *(
            (2, {name: plan}, False, f"you have set {name}={plan}, and not 1 to 4")
            for name in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
            for plan in ("0", "5", "1,2", "")  # all cores; more than those of a peer; by nesting
        ),
    ],
)
def test_no_peer_is_bound_and_why(
    monkeypatch: pytest.MonkeyPatch,
    peers: int,
    environ: dict[str, str],
    may_change: bool,
    why_not: str,
) -> None:
    monkeypatch.setattr(core_shares, "cores", lambda: Cores(range(8), 8))
    binding = core_shares.bound(peers, environ, may_change=may_change)
    assert binding == Binding((), why_not)


@pytest.mark.parametrize(("peers", "is_bound"), [(2, True), (8, True), (16, False)])
def test_survivors_would_share_a_core_for_good(
    monkeypatch: pytest.MonkeyPatch, peers: int, is_bound: bool
) -> None:
    monkeypatch.setattr(core_shares, "cores", lambda: Cores(range(8), 8))
    binding = core_shares.bound(peers, {}, may_fall=True)
    assert bool(binding.cores) == is_bound
    assert is_bound or binding.why_not == "there are 16 peers, and some may be lost"


def test_neighbouring_cores_share_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads of a physical core, and then those of a package."""
    places = {
        0: (0, 0),
        1: (0, 1),
        2: (1, 0),
        3: (1, 1),
        4: (0, 0),
        5: (0, 1),
        6: (1, 0),
        7: (1, 1),
    }
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(places))
    monkeypatch.setattr(core_shares, "_place", lambda core: (*places[core], core))
    assert core_shares.cores().ids == [0, 4, 1, 5, 2, 6, 3, 7]


@pytest.mark.parametrize(
    ("words", "environ", "is_bound"),
    [
        ([], {}, True),
        ([], {"KUNGFU_BIND_TO": "none"}, False),
        (["-w"], {}, False),  # how many there will be nobody knows
    ],
)
def test_peers_stay_on_their_cores(
    words: list[str], environ: dict[str, str], is_bound: bool
) -> None:
    mine = os.sched_getaffinity(0)
    unset = ("KUNGFU_BIND_TO", *core_shares.BINDING)
    others = {k: v for k, v in os.environ.items() if not k.endswith("_THREADS") and k not in unset}
    program = "import os; print(*os.sched_getaffinity(0), os.environ['KUNGFU_OWN_CORES'])"
    command = [sys.executable, "-m", "kungfu_tf.launcher", *words, "-np", "2"]
    ended = subprocess.run(
        [*command, sys.executable, "-c", program],
        env=others | environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    said = [line.split()[1:] for line in ended.stdout.splitlines()]
    first, second = ({int(core) for core in line[:-1]} for line in said)
    assert first | second == mine
    is_bound &= core_shares.cores().number == len(mine) > 1
    assert (first != second) == is_bound
    assert [line[-1] for line in said] == [str(int(is_bound))] * 2


def test_peers_that_share_a_core_have_none_of_their_own() -> None:
    core = min(os.sched_getaffinity(0))
    program = "import os; print(*os.sched_getaffinity(0), os.environ['KUNGFU_OWN_CORES'])"
    command = [sys.executable, "-m", "kungfu_tf.launcher", "-np", "2"]
    ended = subprocess.run(
        [*command, sys.executable, "-c", program],
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    assert [line.split()[1:] for line in ended.stdout.splitlines()] == [[str(core), "0"]] * 2
