"""What a peer of an elastic job says reaches the caller, and what the caller decides the peer."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from kungfu_tf.engines.peer_control import LAST, PeerControl, Said

PEER = "127.0.0.1:10000"
DEADLINE = 60.0
# Speaks as the core does, and prints what it is told.
PROGRAM = """
import os, socket, sys
control = socket.socket(socket.AF_UNIX)
control.connect(sys.argv[1])
lines = f"hello {sys.argv[2]} {os.getpid()}\\nready\\nentered 3\\npropose 4\\npropose\\nnotice\\n"
control.sendall(lines.encode())
with control.makefile() as told:
    for _ in range(8):
        print(told.readline(), end="", flush=True)
control.sendall(b"leave\\n")
sys.exit(7)
"""


def start(path: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-S", "-c", PROGRAM, path, PEER]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def test_lines_and_decisions_keep_their_order(tmp_path: Path) -> None:
    control = PeerControl()
    decisions = [
        ("answer", None),
        ("answer", "only 4 slots"),
        ("answer", None),
        ("publish", 4, 4, [PEER, "127.0.0.1:10001"], ""),
        ("renew", 5),
        ("publish", 5, 4, [PEER], "rank 1 was lost"),
        ("failed", "127.0.0.1:10001", "killed"),
        ("finished", "127.0.0.1:10001"),
    ]
    path = str(tmp_path / "control")
    with control.serving(path, PEER) as wait, start(path) as child:
        for place, (name, *arguments) in reversed([*enumerate(decisions)]):
            if name != "answer":
                control.tell(place, name, *arguments)
        answering = threading.Thread(target=_answer, args=(control, decisions[:3]))
        answering.start()
        assert wait(child) == 7
        answering.join(DEADLINE)
        assert not answering.is_alive()
        assert child.stdout is not None
        assert child.stdout.read().decode().splitlines() == [
            "proposed",
            "refused only 4 slots",
            "proposed",
            f"members 4 4 {PEER},127.0.0.1:10001",
            "anew 5",
            f"survivors 5 4 {PEER} rank 1 was lost",
            "failed 127.0.0.1:10001 killed",
            "left 127.0.0.1:10001",
        ]
    assert control.said(0) == [Said("leave"), Said(LAST)]


def _answer(control: PeerControl, answers: list[tuple[str, str | None]]) -> None:
    heard: list[Said] = []
    while len(heard) < 5:
        heard += control.said(DEADLINE)
    assert heard == [
        Said("ready"),
        Said("entered", (3,)),
        Said("propose", (4,)),
        Said("propose", (None,)),
        Said("notice"),
    ]
    for place in (2, 0, 1):
        control.tell(place, *answers[place])
