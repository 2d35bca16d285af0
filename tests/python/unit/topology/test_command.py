"""`python -m kungfu_tf.topology`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kungfu_tf.topology import __main__ as command


def test_prints_what_a_topology_is_like(capsys):
    assert command.main(["base_graph", "6"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("base_graph(degree=1) of 6 peers: 4 steps in a cycle\nstep 0\n[[")
    for line in (
        "degree             1",
        "doubly stochastic  yes",
        "symmetric          yes",
        "connected          yes",
        "spectral gap       1.000",
        "exact mean         after 4 steps",
    ):
        assert f"\n{line}\n" in f"{text}\n"


def test_takes_options(capsys):
    assert command.main(["ring", "4", "directed=True"]) == 0
    text = capsys.readouterr().out
    assert "ring(directed=True) of 4 peers: 1 step in a cycle" in text
    assert "symmetric          no" in text
    assert "exact mean         never" in text


@pytest.mark.parametrize(
    "arguments",
    [["ring"], ["no_such", "3"], ["ring", "0"], ["ring", "3", "sides=2"], ["base_graph", "3", "x"]],
)
def test_says_what_is_wrong(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_imports_no_tensorflow():
    program = (
        "import runpy, sys; sys.argv = ['topology', 'star', '3']\n"
        "try: runpy.run_module('kungfu_tf.topology', run_name='__main__')\n"
        "except SystemExit as ended: assert not ended.code\n"
        "assert 'tensorflow' not in sys.modules and 'networkx' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)
