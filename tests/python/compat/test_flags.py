"""Flags of KungFu's launcher and of horovodrun, which `kungfu-run` takes."""

from __future__ import annotations

import pytest
from tables import FLAGS, OF_HOROVODRUN

from kungfu_tf.launcher.options import command_line, flags, horovodrun
from kungfu_tf.launcher.options.launch_error import LaunchError

# Flags of KungFu's scripts, tests and documentation, as they go together.
TOGETHER = [
    "-q -H 127.0.0.1:4 -np 4",
    "-q -H 127.0.0.1:8 -w -np 1",
    "-q -w -config-server http://127.0.0.1:9100/config -builtin-config-port 9100 -np 1",
    "-q -logdir logs -w -builtin-config-port 9100 -config-server http://127.0.0.1:9100/config",
    "-logdir logs -q -w -elastic-mode reload -builtin-config-port 9100 -config-server "
    "http://127.0.0.1:9100/config -np 1",
    "-q -H 127.0.0.1:8 -np 1 -logdir logs -w -config-server http://127.0.0.1:9100/get",
    "-q -H 127.0.0.1:16 -np 2 -timeout 2m -port-range 20001-20016 -w",
    "-timeout 8s -np 1 -H 127.0.0.1:1",
    "-np=4 -strategy=BINARY_TREE_STAR -H 127.0.0.1:4 -timeout=5s -v=false",
    "-np 4 -auto-recover 10s",
    "-t0 1600000000 -np 2 -H 10.0.0.1:1,10.0.0.2:1 -nic eth0 -allow-nvlink",
]


@pytest.mark.parametrize("flag", FLAGS)
def test_flags(flag: str) -> None:
    assert f"  -{flag}" in flags.help_text()


@pytest.mark.parametrize("flag", OF_HOROVODRUN)
def test_flags_of_horovodrun(flag: str) -> None:
    name = flag.lstrip("-")
    if name in ("version", "v"):  # kungfu-run's own
        return
    row = horovodrun.ROWS.get(name)
    given = [flag, "1-2"] if row is not None and row.takes_value else [flag]
    given = [flag, "1", "2"] if row is not None and row.is_pair else given
    is_number = name.endswith(("np", "num-proc", "reset-limit"))
    given = [flag, "2"] if is_number else given
    given = [flag, "127.0.0.1:2"] if name.startswith(("H", "host")) else given
    command = ["-compat", "horovod", *given, "python3", "train.py"]
    if row is not None and row.refused:
        with pytest.raises(LaunchError, match=f"-{name} of horovodrun is missing in kungfu-run"):
            command_line.parse(command)
    else:
        assert command_line.parse(command).command == ("python3", "train.py")


def test_flags_of_horovodrun_need_horovod() -> None:
    with pytest.raises(LaunchError, match=r"'--fusion-threshold-mb'.*-compat horovod"):
        command_line.parse(["--fusion-threshold-mb", "32", "python3", "train.py"])


def test_a_program_that_finds_hosts_lets_others_take_the_place_of_lost_ones() -> None:
    line = "--host-discovery-script ./hosts.sh --min-np 2 --max-num-proc 4 --reset-limit 0"
    line += " --blacklist-cooldown-range 10 100"
    command = ["-compat", "horovod", "-np", "2", *line.split(), "python3", "train.py"]
    options = command_line.parse(command)
    assert (options.host_script, options.max_np, options.max_changes) == ("./hosts.sh", 4, 0)
    assert options.watch and options.respawn and options.cooldown == (10, 100)


def test_flags_of_horovodrun_that_mean_ours() -> None:
    line = "--num-proc 3 --hosts a:3 --network-interface eth1 --output-filename logs --verbose"
    options = command_line.parse([*line.split(), "-compat", "horovod", "python3", "train.py"])
    assert (options.np, options.hosts, options.nic) == (3, "a:3", "eth1")
    assert (options.logdir, options.verbose) == ("logs", True)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--min-np 2", ("survive-all", 2)),
        ("--min-num-proc 2 --max-num-proc 4", ("survive-all", 2)),
        ("--min-np 2 -on-failure survive", ("survive", 2)),
        ("--max-np 4", ("stop", None)),
        ("--host-discovery-script ./hosts.sh --max-np 4", ("survive-all", None)),
    ],
)
def test_a_least_number_of_peers_lets_the_others_go_on(
    line: str, expected: tuple[str, int | None]
) -> None:
    command = ["-compat", "horovod", *line.split(), "python3", "train.py"]
    options = command_line.parse(command)
    assert (options.on_failure, options.min_np) == expected


@pytest.mark.parametrize("line", TOGETHER)
def test_flags_that_go_together(line: str) -> None:
    command = [*line.split(), "python3", "train.py"]
    assert command_line.parse(command).command == ("python3", "train.py")
