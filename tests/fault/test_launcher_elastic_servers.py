"""Jobs that hear of their size from outside: config servers and `kungfu-run -resize`."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kungfu_tf.launcher.document.cluster_document import Document
from kungfu_tf.launcher.document.http_store import HttpStore
from tests import ports
from tests.fault.elastic import PROGRAM, PYTHON, WATCH
from tests.python.launcher.served import NONSENSE, answering

if TYPE_CHECKING:
    from tests.fault.conftest import Jobs

TOKEN = "t" * 32


def test_a_job_follows_its_config_server_and_a_person(kungfu_run: Jobs) -> None:
    port = ports.take()[0]
    loop = PROGRAM.replace("PLAN[kf.membership_version()]", "None")
    launch = kungfu_run(
        *(*WATCH, "-np", "1", "-builtin-config-port", str(port), *PYTHON, "PLAN = [3, 2]" + loop),
        KUNGFU_CONFIG_TOKEN=TOKEN,
    )
    launch.until_said("config server: http://")
    store = HttpStore(f"http://127.0.0.1:{port}", TOKEN)
    now = store.get()
    assert len(now.workers) == 1
    store.put(dataclasses.replace(now, workers=(*now.workers, "127.0.0.1:1", "0.0.0.0:1")))
    launch.until_printed("membership 1 rank", 3)
    assert len(store.get().workers) == 3
    assert "127.0.0.1:1" not in store.get().workers
    too_many = kungfu_run("-resize", "5")
    assert too_many.wait() == 2
    assert "5 peers: there are 4 slots" in too_many.err
    resize = kungfu_run("-resize", "2")
    assert resize.wait() == 0, resize.err
    assert resize.out == "from 3 peers to 2, as soon as all are ready\n"
    assert launch.wait() == 0, launch.err
    assert "[0] membership 2 rank 0 of 2" in launch.out


# Until it is told that enough was said.
UNTIL_SAID = """
import os, time
import tensorflow as tf
import kungfu_tf as kf
from kungfu_tf.ops.resize import resize_from_config_server
try:
    resize_from_config_server()
except tf.errors.FailedPreconditionError as error:
    print(error)
assert not kf.resize()
while not os.path.exists("said"):
    time.sleep(0.01)
"""


def test_without_its_config_server_a_job_goes_on(kungfu_run: Jobs) -> None:
    server = f"http://127.0.0.1:{ports.take()[0]}"
    launch = kungfu_run(
        *(*WATCH, "-np", "1", "-config-server", server, *PYTHON, UNTIL_SAID),
        KUNGFU_CONFIG_TOKEN=TOKEN,
    )
    launch.until_said("the job goes on without it")
    (launch.folder / "said").touch()
    assert launch.wait() == 0, launch.err
    assert "does not answer" in launch.out
    assert launch.err.count("the job goes on without it") == 1


def test_nonsense_of_a_config_server_is_said_once_and_the_job_goes_on(kungfu_run: Jobs) -> None:
    program = """
import os
import tensorflow as tf
import kungfu_tf as kf
from kungfu_tf.ops.resize import resize_from_config_server
while not kf.all_reduce_int_max(os.path.exists("enough")):
    assert not kf.resize()
try:
    resize_from_config_server()
except tf.errors.FailedPreconditionError as error:
    print(error)
"""
    with answering(NONSENSE) as (url, asked):
        words = ("-np", "2", "-config-server", url)
        launch = kungfu_run(*WATCH, *words, *PYTHON, program, KUNGFU_CONFIG_TOKEN=TOKEN)
        launch.until_said("the job goes on without it")
        kungfu_run.until(lambda: len(asked) > len(NONSENSE), lambda: str(asked))
        (launch.folder / "enough").touch()
        assert launch.wait() == 0, launch.err
    assert launch.out.count(f"the config server {url} ") == 1, launch.out
    assert launch.err.count("the job goes on without it") == 1, launch.err


@contextlib.contextmanager
def config_server(port: int, *words: str) -> Iterator[HttpStore]:
    module = "kungfu_tf.launcher.command.kungfu_config_server"
    command = [sys.executable, "-m", module, "-port", str(port), *words]
    environ = {**os.environ, "KUNGFU_CONFIG_TOKEN": TOKEN}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        try:
            yield HttpStore(f"http://127.0.0.1:{port}", TOKEN)
        finally:
            process.terminate()


def test_whose_token_its_config_server_refuses_goes_on(kungfu_run: Jobs) -> None:
    port = ports.take()[0]
    words = ("-np", "1", "-config-server", f"http://127.0.0.1:{port}")
    with config_server(port):
        launch = kungfu_run(*WATCH, *words, *PYTHON, UNTIL_SAID, KUNGFU_CONFIG_TOKEN="w" * 32)
        launch.until_said("the job goes on without it")
        (launch.folder / "said").touch()
        assert launch.wait() == 0, launch.err
    assert "refuses the token (KUNGFU_CONFIG_TOKEN)" in launch.out
    assert launch.err.count("the job goes on without it") == 1


# Until the peers are others.
UNTIL_OTHERS = """
import os
import kungfu_tf as kf
print("begins", kf.rank(), os.environ["KUNGFU_SELF"], flush=True)
while not kf.resize():
    pass
print("ends", kf.rank(), kf.size(), flush=True)
"""


def test_a_job_waits_for_its_document_and_rank_0_can_leave(
    kungfu_run: Jobs, tmp_path: Path
) -> None:
    of_server, *others = ports.take(3)
    workers = [f"127.0.0.1:{port}" for port in reversed(others)]
    init = tmp_path / "init.json"
    init.write_text(json.dumps({"runners": [], "workers": workers}))
    words = ("-config-server", f"http://127.0.0.1:{of_server}", "-init-version", "-1")
    launch = kungfu_run(*WATCH, *words, *PYTHON, UNTIL_OTHERS, KUNGFU_CONFIG_TOKEN=TOKEN)
    launch.until_said("does not answer")
    kept = ("-file", str(tmp_path / "kept.json"))
    with config_server(of_server, *kept, "-init", str(init)):
        for rank, worker in enumerate(workers):
            launch.until_printed(f"[{rank}] begins {rank} {worker}")
    launch.until_said("the job goes on without it")
    with config_server(of_server, *kept) as store:
        store.put(Document((), tuple(workers[1:])))
        assert launch.wait() == 0, launch.err
        assert "[0] ends -1 0\n" in launch.out
        assert "[1] ends 0 1\n" in launch.out
        assert launch.err.count("the job goes on without it") == 1


def test_after_a_failure_the_peers_are_where_the_document_had_them(
    kungfu_run: Jobs, tmp_path: Path
) -> None:
    program = """
import os, signal
import kungfu_tf as kf
runs = int(os.environ["KUNGFU_RESTARTS"])
print("run", runs, kf.rank(), "of", kf.size(), os.environ["KUNGFU_SELF"], flush=True)
kf.barrier()
if runs == 0 and kf.rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
kf.barrier()
"""
    of_server, *others = ports.take(3)
    workers = [f"127.0.0.1:{port}" for port in reversed(others)]
    init = tmp_path / "init.json"
    init.write_text(json.dumps({"runners": [], "workers": workers}))
    words = ("-config-server", f"http://127.0.0.1:{of_server}", "-init-version", "-1", "-np", "1")
    with config_server(of_server, "-init", str(init)):
        launch = kungfu_run(
            *(*WATCH, *words, "-auto-recover", "0", *PYTHON, program), KUNGFU_CONFIG_TOKEN=TOKEN
        )
        assert launch.wait() == 0, launch.err
    for rank, worker in enumerate(workers):
        assert f"[{rank}] run 0 {rank} of 2 {worker}\n" in launch.out
        assert f"[{rank}] run 1 {rank} of 2 {worker}\n" in launch.out


def test_who_waits_for_a_document_can_be_ended(kungfu_run: Jobs) -> None:
    server = f"http://127.0.0.1:{ports.take()[0]}"
    words = ("-config-server", server, "-init-version", "-1")
    launch = kungfu_run(*WATCH, *words, *PYTHON, "", KUNGFU_CONFIG_TOKEN=TOKEN)
    launch.until_said("does not answer")
    launch.process.send_signal(signal.SIGTERM)
    assert launch.wait() == 128 + signal.SIGTERM
    assert "there was no document to begin with" in launch.err


def test_several_jobs_are_told_apart(kungfu_run: Jobs) -> None:
    waits = "import time\nprint('here', flush=True)\ntime.sleep(1000)"
    launches = [kungfu_run(*WATCH, "-np", "1", *PYTHON, waits) for _ in range(2)]
    for launch in launches:
        launch.until_printed("here")
    which = kungfu_run("-resize", "2")
    assert which.wait() == 2
    names = re.findall(r"-job ([0-9a-f]{16}) +1 peer,", which.err)
    assert len(names) == 2
    assert kungfu_run("-resize", "2", "-job", names[0]).wait() == 0
    for launch in launches:
        launch.process.send_signal(signal.SIGTERM)
        launch.wait()
