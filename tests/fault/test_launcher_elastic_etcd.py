"""Jobs that change their size as a document in etcd says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kungfu_tf.launcher.document import opening
from kungfu_tf.launcher.document.cluster_document import Document
from tests import etcd_server, ports
from tests.fault.elastic import PYTHON, WATCH

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fault.conftest import Jobs

# Takes in whom the launcher starts, until there are enough.
PROGRAM = """
import os, sys
import kungfu_tf as kf
proposed = False
if os.environ["KUNGFU_MEMBERSHIP"] == "joining":
    kf.resize()
print("begins", os.environ["KUNGFU_SELF"], "of", kf.size(), flush=True)
while not kf.all_reduce_int_max(os.path.exists("enough")):
    if kf.is_root() and os.path.exists("propose") and not proposed:
        proposed = True
        kf.propose_new_size(3)
    if kf.resize():
        if kf.detached():
            sys.exit()
        print("membership", kf.membership_version(), "rank", kf.rank(), "of", kf.size(), flush=True)
"""


def test_a_job_outlives_its_etcd(kungfu_run: Jobs, tmp_path: Path) -> None:
    with etcd_server.running(tmp_path) as etcd:
        url = f"etcd://{etcd.place}/job"
        store = opening.open_store(url, "")
        words = ("-config-server", url)
        launch = kungfu_run(*WATCH, *words, "-init-version", "-1", *PYTHON, PROGRAM)
        launch.until_said("has no document")
        first = f"127.0.0.1:{ports.take()[0]}"
        store.reset(Document((), (first,)))
        launch.until_printed(f"[0] begins {first} of 1")
        resize = kungfu_run("-resize", "2", *words)
        assert resize.wait() == 0, resize.err
        assert resize.out == "the document has 2 workers now; it had 1\n"
        launch.until_printed("membership 1 rank 0 of 2")
        etcd.kill()
        launch.until_said("the job goes on without it")
        refused = kungfu_run("-resize", "3", *words)
        assert refused.wait() == 2
        assert f"-config-server: {url} does not answer" in refused.err
        (launch.folder / "propose").touch()
        launch.until_printed("membership 2 rank 0 of 3")
        etcd.start()
        launch.until_said("answers again")
        kungfu_run.until(lambda: len(store.get().workers) == 3, lambda: str(store.get()))
        assert kungfu_run("-resize", "2", *words).wait() == 0
        launch.until_printed("membership 3 rank 0 of 2")
        (launch.folder / "enough").touch()
        assert launch.wait() == 0, launch.err
    assert launch.err.count("the job goes on without it") == 1
