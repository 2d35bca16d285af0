"""The command line of kungfu-run."""

from collections.abc import Callable

import pytest

import kungfu_tf
from kungfu_tf import errors
from kungfu_tf.launcher.command import distribute, kungfu_config_server, kungfu_run, resizing
from kungfu_tf.launcher.options import command_line, flags
from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.native import environment, libraries


def test_one_dash_two_dashes_and_equals_mean_the_same() -> None:
    expected = command_line.parse(["-np", "4", "-strategy", "RING", "-q", "prog"])
    assert command_line.parse(["--np", "4", "--strategy", "ring", "--q", "prog"]) == expected
    assert command_line.parse(["-np=4", "--strategy=RING", "-q=true", "prog"]) == expected
    assert expected.np == 4
    assert expected.strategy == "RING"
    assert expected.quiet


def test_flags_after_the_program_are_the_programs() -> None:
    options = command_line.parse(["-np", "2", "python", "train.py", "-np", "8", "--verbose"])
    assert options.np == 2
    assert options.command == ("python", "train.py", "-np", "8", "--verbose")


def test_two_dashes_alone_end_the_flags() -> None:
    assert command_line.parse(["-q", "--", "-odd-program", "-v"]).command == ("-odd-program", "-v")


def test_the_last_of_two_counts() -> None:
    assert command_line.parse(["-v", "-v=false", "-np", "1", "-np", "3", "prog"]).np == 3
    assert not command_line.parse(["-v", "-v=false", "prog"]).verbose


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), ("1.5", 1.5), ("1.5s", 1.5), ("500ms", 0.5), ("1h30m", 5400.0), ("2m1s", 121.0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert command_line.parse(["-timeout", text, "prog"]).timeout == seconds


NO_PROGRAM = [["python3"], ["python3", "-u"], ["python3", "-"]]
OF_OTHER_LAUNCHERS = ["-n", "--num-proc", "--nproc-per-node", "--nproc_per_node"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-np", "0", "prog"], "-np: '0' is not a number of peers"),
        (["-np", "four", "prog"], "-np: 'four'"),
        (["-np", "-4", "prog"], "-np: '-4'"),
        (["-np"], "-np needs a value: -np N"),
        (["-stratgy", "RING", "prog"], "no flag '-stratgy'; did you mean -strategy?"),
        (["--frobnicate", "prog"], "no flag '--frobnicate'"),
        (["-timeout", "1x", "prog"], "-timeout: '1x' is not a duration"),
        (["-timeout", "h", "prog"], "-timeout: 'h'"),
        (["-port-range", "10000", "prog"], "-port-range: '10000' is not a range"),
        (["-port-range", "11000-10000", "prog"], "ends before it begins"),
        (["-port-range", "0-70000", "prog"], "is not a port"),
        (["-port", "x", "prog"], "-port: 'x' is not a port"),
        (["-v=maybe", "prog"], "-v: 'maybe' is neither true nor false"),
        (["-H", "", "prog"], "-H: '' is empty"),
        (["-H", "a:1", "-P", "b:2", "prog"], "-H and -P exclude each other"),
        (["-min-np", "2", "prog"], "-min-np needs -on-failure survive"),
        (
            ["-on-failure", "survive", "-min-np", "3", "-np", "2", "prog"],
            "-min-np 3 is more than -np 2",
        ),
        (
            ["-on-failure", "survive-all", "-auto-recover", "9", "prog"],
            "-on-failure survive-all and -auto-recover exclude each other",
        ),
        (
            ["-on-failure", "survive", "-w", "-elastic-mode", "reload", "prog"],
            "survive and -elastic-mode reload exclude each other",
        ),
        (["-max-changes", "-1", "prog"], "-max-changes: '-1' is not a number, 0 or more"),
        (["-max-changes", "1", "prog"], "-max-changes needs -w or -on-failure survive"),
        (["-respawns", "2", "prog"], "-respawns needs -respawn"),
        (["-max-np", "2", "prog"], "-max-np needs -w"),
        (["-w", "-max-np", "2", "-H", "a:2", "prog"], "-max-np and -H exclude each other"),
        (["-w", "-max-np", "2", "-np", "3", "prog"], "-max-np 2 is less than -np and -spares"),
        (["-respawn", "-on-failure", "stop", "prog"], "-respawn and -on-failure stop exclude"),
        (["-spares", "1", "-on-failure", "stop", "prog"], "-spares and -on-failure stop exclude"),
        (
            ["-respawn", "-auto-recover", "9", "prog"],
            "-on-failure survive (which -respawn implies) and -auto-recover exclude each other",
        ),
        (["-spares", "1", "-P", "a:1", "prog"], "-spares and -P exclude each other"),
        (["-respawn", "-cooldown", "9-1", "prog"], "is not a shorter and a longer duration"),
        (
            ["-host-discovery-script", "x", "-builtin-config-port", "9", "prog"],
            "-builtin-config-port and -host-discovery-script exclude each other",
        ),
        (["-on-failure", "go on", "prog"], "is none of stop, survive and survive-all"),
        (["-self", "a", "-nic", "b", "prog"], "-self and -nic exclude each other"),
        (["-compat", "kungfu,tf2", "x"], "-compat: 'kungfu,tf2' names 'tf2', and there are kungfu"),
        (["-w", "-init-version", "-2", "prog"], "-init-version: '-2' is not a version"),
        (["-w", "-init-version", "-1", "prog"], "-init-version -1 needs -config-server"),
        (["-np", "4"], "no program to run"),
        ([], "no program to run"),
        *(
            (["-np", "2", *words], "peers have none. Name it: python3 train.py")
            for words in NO_PROGRAM
        ),
        *(([flag, "2", "prog"], f"'{flag}'; did you mean -np?") for flag in OF_OTHER_LAUNCHERS),
    ],
)
def test_errors_say_what_and_where(arguments: list[str], says: str) -> None:
    with pytest.raises(LaunchError) as caught:
        command_line.parse(arguments)
    assert says in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "command",
    [
        ["python", "train.py"],
        ["python", "-c", "print(1)"],
        ["python", "-uc", "print(1)"],
        ["python", "-m", "train"],
        ["python", "-V"],
        ["/opt/pythonic"],
    ],
)
def test_a_program_is_a_program(command: list[str]) -> None:
    assert command_line.parse(command).command == tuple(command)


def test_the_port_of_the_runners_is_before_those_of_the_peers() -> None:
    assert command_line.parse(["-port-range", "500-600", "prog"]).runner_port == 499
    assert command_line.parse(["-port", "77", "prog"]).runner_port == 77


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "10.0.0.1"])
def test_a_config_server_may_be_the_job_s_own(host: str) -> None:
    both = ["-config-server", f"http://{host}:9100/config", "-builtin-config-port", "9100"]
    options = command_line.parse(["-w", "-H", "10.0.0.1:2,10.0.0.2:2", *both, "prog"])
    assert (options.config_server, options.builtin_config_port) == (None, 9100)


@pytest.mark.parametrize("server", ["127.0.0.1:9101", "10.0.0.3:9100", "127.0.0.1"])
def test_a_job_has_one_document(server: str) -> None:
    both = ["-config-server", f"http://{server}", "-builtin-config-port", "9100"]
    with pytest.raises(LaunchError, match="exclude each other: a job has one document"):
        command_line.parse(["-w", "-H", "10.0.0.1:2", *both, "prog"])


def test_an_unknown_strategy_lists_those_that_exist() -> None:
    with pytest.raises(LaunchError) as caught:
        command_line.parse(["-strategy", "MESH", "prog"])
    assert all(name in str(caught.value) for name in environment.strategies())


@pytest.mark.parametrize("word", ["-h", "-help", "--help"])
def test_help_names_every_flag_and_strategy(word: str) -> None:
    with pytest.raises(command_line.HelpRequested):
        command_line.parse(["-np", "2", word])
    text = flags.help_text()
    assert all(f"  -{flag.name}" in text for flag in flags.FLAGS)
    assert all(name in text for name in environment.strategies())
    assert max(len(line) for line in text.splitlines()) <= 100


@pytest.mark.parametrize("word", ["-V", "-version", "--version"])
@pytest.mark.parametrize(
    ("name", "main"),
    [
        ("kungfu-run", kungfu_run.main),
        ("kungfu-rrun", distribute.main_rrun),
        ("kungfu-distribute", distribute.main_distribute),
        ("kungfu-config-server", kungfu_config_server.main),
    ],
)
def test_each_command_says_its_version(
    name: str, main: Callable[[list[str]], int], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word]) == 0
    assert capsys.readouterr().out == f"{name} {kungfu_tf.__version__}\n"


def test_without_the_core_a_strategy_is_one_error_and_help_still_helps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def load() -> None:
        raise errors.LibraryError("cannot load the core: it is not there")

    monkeypatch.setattr(libraries, "core", load)
    with pytest.raises(LaunchError, match=r"^cannot load the core: it is not there$"):
        command_line.parse(["-strategy", "RING", "prog"])
    assert command_line.parse(["-np", "2", "prog"]).np == 2
    text = flags.help_text()
    assert "\nStrategies: cannot load the core: it is not there\n" in text
    assert all(f"  -{flag.name}" in text for flag in flags.FLAGS)


def test_without_a_job_there_is_nothing_to_resize(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resizing, "running", list)
    with pytest.raises(LaunchError, match="no job of this user"):
        resizing._find(None)
