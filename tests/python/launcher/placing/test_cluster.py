"""Ranks, ports, GPUs and the environment of the peers."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kungfu_tf.launcher.channels import credentials
from kungfu_tf.launcher.options import command_line
from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.launcher.placing import cluster, gpu_placement
from kungfu_tf.launcher.placing.cluster import Cluster
from kungfu_tf.launcher.processes import peer_environment, run_directory
from kungfu_tf.launcher.processes.job import Job
from kungfu_tf.native import environment
from tests import ports

TOKEN_FILE = "KUNGFU_CONFIG_TOKEN_FILE"


@contextlib.contextmanager
def planned(*words: str) -> Iterator[Cluster]:
    plan = cluster.plan(command_line.parse([*words, "prog"]))
    try:
        yield plan
    finally:
        plan.reservation.close()


def free_range(size: int) -> tuple[int, int]:
    taken = ports.take(size)
    return taken[0], taken[-1]


def test_ranks_go_host_by_host_with_the_first_ports_of_the_range() -> None:
    first, second, *_, last = ports.take(4)
    words = ("-H", "127.0.0.2:2,127.0.0.3:3", "-np", "4", "-port-range", f"{first}-{last}")
    with planned(*words, "-self", "127.0.0.3") as there:
        assert there.peer_list == (
            f"127.0.0.2:{first},127.0.0.2:{second},127.0.0.3:{first},127.0.0.3:{second}"
        )
        assert [peer.rank for peer in there.local_peers] == [2, 3]
        assert [peer.local_rank for peer in there.peers] == [0, 1, 0, 1]
        assert there.several_hosts
        with planned(*words, "-self", "127.0.0.2") as here:
            assert here.peer_list == there.peer_list
            assert [peer.rank for peer in here.local_peers] == [0, 1]


def test_a_host_that_no_peer_belongs_to() -> None:
    with planned("-H", "127.0.0.2:2,127.0.0.3:3", "-np", "2", "-self", "127.0.0.3") as plan:
        assert plan.local_peers == ()
        assert not plan.several_hosts


def test_by_default_there_is_room_for_as_many_peers_as_asked_for() -> None:
    with planned("-np", "100") as plan:
        assert len(plan.local_peers) == 100


def test_a_program_of_kungfu_without_hosts_may_ask_for_many_peers() -> None:
    with planned("-w", "-compat", "kungfu") as plan:
        assert (len(plan.peers), plan.slots) == (1, 128)
    with planned("-w", "-compat", "kungfu", "-H", "127.0.0.1:4") as plan:
        assert plan.slots == 4


def test_max_np_says_how_many_slots_this_host_has() -> None:
    with planned("-w", "-np", "2", "-max-np", "1000") as plan:
        assert (len(plan.peers), plan.slots) == (2, 1000)


def test_ipv6_peers_are_written_in_brackets() -> None:
    first, last = free_range(2)
    with planned("-P", f"[::1]:{first},[::1]:{last}") as plan:
        assert plan.peer_list == f"[::1]:{first},[::1]:{last}"


def test_peers_in_any_order() -> None:
    first, last = free_range(3)
    text = f"127.0.0.2:{first}:5,127.0.0.1:{first},127.0.0.2:{last}"
    with planned("-P", text, "-self", "127.0.0.2") as plan:
        assert [(peer.rank, peer.local_rank, peer.slot) for peer in plan.local_peers] == [
            (0, 0, 5),
            (2, 1, 1),
        ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-np", "5", "-H", "127.0.0.1:4"], "-np 5 is more than the 4 slots of 127.0.0.1:4"),
        (["-np", "3", "-P", "127.0.0.1:7,127.0.0.1:8"], "-np 3 is more than the 2 peers of -P"),
        (["-np", "4", "-port-range", "20000-20002"], "20000-20002 has no room for 4 peers"),
    ],
)
def test_what_does_not_fit(words: list[str], says: str) -> None:
    with pytest.raises(LaunchError) as caught:
        cluster.plan(command_line.parse([*words, "prog"]))
    assert says in str(caught.value)


def test_the_workers_of_a_document_come_first_on_any_hosts() -> None:
    first, second = free_range(2)
    workers = [f"127.0.0.1:{second}", f"127.0.0.2:{first}", f"127.0.0.1:{first}"]
    options = command_line.parse(
        ["-w", "-H", "127.0.0.1:3,127.0.0.2:1", "-self", "127.0.0.1", "prog"]
    )
    plan = cluster.plan(options, workers)
    plan.reservation.close()
    assert plan.peer_list.split(",") == workers
    assert (plan.slots, plan.leads) == (4, True)
    with pytest.raises(LaunchError, match=r"2 workers on 127\.0\.0\.2, more than the slots"):
        cluster.plan(options, ["127.0.0.2:1", "127.0.0.2:2"])
    with pytest.raises(LaunchError, match=r"workers: item 1 'a\.invalid:1' cannot be resolved"):
        cluster.plan(options, ["a.invalid:1"])


def test_a_job_that_starts_anew_keeps_the_places_of_its_document() -> None:
    first, last = free_range(4)
    workers = [f"127.0.0.2:{last}", f"127.0.0.1:{first}"]
    words = ["-w", "-H", "127.0.0.1:2,127.0.0.2:2", "-port-range", f"{first}-{last}", "prog"]

    def peers(size: int, *more: str) -> str:
        options = command_line.parse(["-np", str(size), "-self", "127.0.0.1", *more, *words])
        plan = cluster.plan(options, workers)
        plan.reservation.close()
        return plan.peer_list

    assert peers(1) == workers[0]
    assert peers(2) == ",".join(workers)
    more = [f"127.0.0.1:{first + 1}", f"127.0.0.2:{first}"]
    assert peers(3) == ",".join([*workers, more[0]])
    assert peers(4) == ",".join([*workers, *more])
    with pytest.raises(LaunchError, match="5 peers: the hosts have room for 4"):
        peers(5)
    # A host that is alone passes over ports that others use.
    workers = [f"127.0.0.1:{last}"]
    words = ["-w", "-H", "127.0.0.1:2", "-port-range", f"{first}-{last}", "prog"]
    with socket.create_server(("127.0.0.1", first)):
        assert peers(2) == f"127.0.0.1:{last},127.0.0.1:{first + 1}"


def test_ports_in_use_are_passed_over_on_one_host() -> None:
    first, last = free_range(4)
    with socket.create_server(("127.0.0.1", first + 1)):
        with planned("-np", "2", "-port-range", f"{first}-{last}") as plan:
            assert [peer.port for peer in plan.peers] == [first, first + 2]
        with pytest.raises(LaunchError, match="only 3 of 4 ports are free"):
            cluster.plan(command_line.parse(["-np", "4", "-port-range", f"{first}-{last}", "prog"]))


def test_a_port_in_use_is_an_error_where_it_was_asked_for() -> None:
    first, _ = free_range(1)
    with socket.create_server(("127.0.0.1", first)), pytest.raises(LaunchError) as caught:
        cluster.plan(command_line.parse(["-P", f"127.0.0.1:{first}", "prog"]))
    assert f"port {first} of 127.0.0.1 is in use" in str(caught.value)


def test_two_launchers_do_not_choose_the_same_port() -> None:
    first, last = free_range(4)
    words = ("-np", "2", "-port-range", f"{first}-{last}")
    with planned(*words) as one, planned(*words) as other:
        assert len({peer.port for peer in (*one.peers, *other.peers)}) == 4
    with planned(*words) as again:
        assert [peer.port for peer in again.peers] == [first, first + 1]


def test_one_gpu_per_peer() -> None:
    with planned("-np", "2") as plan:
        assert gpu_placement.place(plan.peers, ["3", "GPU-8f", "5"]).devices == {
            0: "3",
            1: "GPU-8f",
        }
        assert gpu_placement.place(plan.peers, ["3", "5"]).warning is None
        shared = gpu_placement.place(plan.peers, ["3"])
        assert shared.devices == {0: "3", 1: "3"}
        assert shared.warning is not None
        assert "2 peers share 1 GPU:" in shared.warning
        assert gpu_placement.place(plan.peers, []).devices == {}


def test_gpus_of_the_environment_come_before_those_of_the_machine(tmp_path: Path) -> None:
    for name in ("nvidia10", "nvidia0", "nvidia2", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    assert gpu_placement.visible_gpus({}, dev=tmp_path) == ["0", "2", "10"]
    assert gpu_placement.visible_gpus({"CUDA_VISIBLE_DEVICES": "7, 6"}, dev=tmp_path) == ["7", "6"]
    assert gpu_placement.visible_gpus({"CUDA_VISIBLE_DEVICES": "7,-1,6"}, dev=tmp_path) == ["7"]
    assert gpu_placement.visible_gpus({"CUDA_VISIBLE_DEVICES": ""}, dev=tmp_path) == []


def job_of(plan: Cluster, *words: str, environ: dict[str, str]) -> Job:
    return Job(
        cluster=plan,
        credentials=credentials.one_host(),
        directory=run_directory.choose(),
        placement=gpu_placement.place(plan.peers, gpu_placement.visible_gpus(environ)),
        options=command_line.parse([*words, "prog"]),
    )


def environment_of(*words: str, environ: dict[str, str]) -> dict[str, str]:
    with planned("-np", "2", *words) as plan:
        return peer_environment.of_peer(
            plan.peers[1], job_of(plan, *words, environ=environ), environ
        )


def test_identity_is_the_launchers() -> None:
    forged = {"KUNGFU_SELF": "x", "KUNGFU_SECRET": "y", "KUNGFU_SECRET_FILE": "z", "HOME": "/home"}
    env = environment_of(environ=forged)
    assert env["KUNGFU_SELF"] == env["KUNGFU_PEERS"].split(",")[1]
    assert env["KUNGFU_SECRET"] != "y"
    assert "KUNGFU_SECRET_FILE" not in env
    assert env["KUNGFU_MEMBERSHIP_VERSION"] == "0"
    assert env["KUNGFU_CONTROL"].startswith(env["KUNGFU_SOCKET_DIR"] + "/")
    assert env["HOME"] == "/home"


def test_a_newcomer_is_alone_in_the_membership_that_takes_it_in() -> None:
    with planned("-np", "2", "-w") as plan:
        job = job_of(plan, "-w", environ={})
        env = peer_environment.of_newcomer(plan.peers[1], 7, job, {})
    assert env["KUNGFU_PEERS"] == env["KUNGFU_SELF"] == str(plan.peers[1])
    assert (env["KUNGFU_MEMBERSHIP_VERSION"], env["KUNGFU_MEMBERSHIP"]) == ("7", "joining")


def test_what_is_internal_is_what_the_launcher_tells() -> None:
    internal = {setting.name for setting in environment.settings() if setting.internal}
    environ = dict.fromkeys(internal, "of the user")
    told = environment_of("-compat", "tf1", environ=environ)
    assert "of the user" not in {told[name] for name in internal}
    of_us = {name for name in environment_of(environ={}) if name.startswith("KUNGFU_")}
    assert of_us - internal == {"KUNGFU_SECRET", "KUNGFU_STRATEGY", "KUNGFU_LOG_LEVEL"}


def test_an_argument_goes_before_the_environment_and_that_before_the_default() -> None:
    plain = environment_of(environ={})
    assert (plain["KUNGFU_STRATEGY"], plain["KUNGFU_LOG_LEVEL"]) == ("AUTO", "2")
    assert plain["PYTHONUNBUFFERED"] == "1"
    assert environment_of("-v", environ={})["KUNGFU_LOG_LEVEL"] == "1"
    assert environment_of("-q", environ={})["KUNGFU_LOG_LEVEL"] == "3"
    own = {"KUNGFU_STRATEGY": "RING", "KUNGFU_LOG_LEVEL": "0", "PYTHONUNBUFFERED": ""}
    tuned = environment_of("-v", environ=own)
    assert (tuned["KUNGFU_STRATEGY"], tuned["KUNGFU_LOG_LEVEL"]) == ("RING", "0")
    assert tuned["PYTHONUNBUFFERED"] == ""
    assert environment_of("-strategy", "STAR", environ=own)["KUNGFU_STRATEGY"] == "STAR"


def test_threads_that_the_user_wants() -> None:
    own = {"OMP_NUM_THREADS": "5", "TF_NUM_INTRAOP_THREADS": "6"}
    env = environment_of(environ=own)
    assert {name: env[name] for name in own} == own
    assert env["TF_NUM_INTEROP_THREADS"] >= "2"
    assert "OMP_NUM_THREADS" in environment_of(environ={})


def test_gpus_and_nccl() -> None:
    env = environment_of("-allow-nvlink", environ={"CUDA_VISIBLE_DEVICES": "6,7"})
    assert env["CUDA_VISIBLE_DEVICES"] == "7"
    assert env["NCCL_P2P_LEVEL"] == "NVL"
    assert "CUDA_VISIBLE_DEVICES" not in environment_of(environ={}) or gpu_placement.visible_gpus(
        {}
    )


def test_the_socket_directory_stays_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/tmp/" + "long" * 20)
    assert run_directory.choose().path.startswith("/tmp/kungfu-")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("KUNGFU_GRACE", "soon", "a number from 0 to 86400, in seconds"),
        ("KUNGFU_BIND_TO", "sockets", "cores or none"),
        ("KUNGFU_TRANSPORT", "ib", "auto, shm, unix or tcp"),
        ("KUNGFU_DIRECT", "on", "auto or off"),
        ("KUNGFU_STRATEGY", "MESH", "AUTO, STAR, "),
        ("KUNGFU_CHUNK_BYTES", "1", "an integer from 4096"),
    ],
)
def test_a_variable_that_cannot_be_understood(name: str, text: str, expected: str) -> None:
    with pytest.raises(LaunchError) as caught:
        peer_environment.check(command_line.parse(["program"]), {name: text})
    assert str(caught.value).startswith(name)
    assert repr(text) in str(caught.value)
    assert f"expected {expected}" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("KUNGFU_TRANSPORT", "ib", "KUNGFU_TRANSPORT='ib'"),
        ("KUNGFU_SECRET_FILE", "/no/such/file", "KUNGFU_SECRET_FILE: cannot read '/no/such/file'"),
        (TOKEN_FILE, "/x" * 3000, f"{TOKEN_FILE}: cannot read '/x"),
        (TOKEN_FILE, "/dev/null", f"{TOKEN_FILE} '/dev/null': its first line has 0 char"),
    ],
)
def test_nothing_is_started_with_it(name: str, text: str, expected: str) -> None:
    ended = launched(**{name: text})
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"kungfu-run: {expected}")


def test_a_variable_that_nobody_reads_is_warned_of_once() -> None:
    ended = launched(KUNGFU_TRANSPROT="shm")
    assert ended.returncode == 0
    warnings = [line for line in ended.stderr.splitlines() if "warning" in line]
    assert warnings == [
        "kungfu-run: warning: there is no variable KUNGFU_TRANSPROT; did you mean KUNGFU_TRANSPORT?"
    ]


def launched(**environ: str) -> subprocess.CompletedProcess[str]:
    """A job of two peers, with these variables of ours only."""
    command = [sys.executable, "-m", "kungfu_tf.launcher", "-np", "2", "echo", "started"]
    others = {name: text for name, text in os.environ.items() if "KUNGFU" not in name}
    return subprocess.run(command, env=others | environ, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("words", "environ"),
    [
        ([], {"KUNGFU_STRATEGY": "ring", "KUNGFU_TRANSPORT": "", "KUNGFU_MINE": "x"}),
        (["-strategy", "RING"], {"KUNGFU_STRATEGY": "MESH"}),  # the flag counts
        (
            [],
            {"KUNGFU_MEMBERSHIP_VERSION": "x", "KUNGFU_RESTARTS": "x"},
        ),  # what counts is the launcher's
    ],
)
def test_what_does_not_matter_is_not_read(
    monkeypatch: pytest.MonkeyPatch, words: list[str], environ: dict[str, str]
) -> None:
    def no_home() -> Path:
        raise RuntimeError("could not determine home directory")

    monkeypatch.setattr(Path, "home", no_home)
    peer_environment.check(command_line.parse([*words, "program"]), environ)
