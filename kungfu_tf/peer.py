"""This process as a peer: its identity, the other peers, and calls that all make together.

The first exchange starts the peer. Without the launcher the process is one of one. To ask for ranks
and sizes starts nothing: a data worker that the peer has started may ask, too.

Every function here that starts or asks the peer raises

    LibraryError                the core is missing, or of another version than the package
    InvalidArgumentError        a variable of the environment cannot be understood
    FailedPreconditionError     after `shutdown`

What starts the peer raises, too

    FailedPreconditionError     in a process that was started by a peer, and is none; if there are
                                several peers and no secret
    KungfuError                 another reason why the peer cannot start: its port is taken, the
                                launcher cannot be reached; the message says which

In a job whose peers change (`kungfu-run -w`) a new process that a peer has started (spawn) hears
nothing of that: there ranks and sizes raise FailedPreconditionError.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kungfu_tf import config, context, errors
from kungfu_tf.native import libraries

__all__ = [
    "all_reduce_int_max",
    "barrier",
    "detached",
    "elastic",
    "host_count",
    "init",
    "is_root",
    "is_single_process",
    "joining",
    "launched",
    "local_rank",
    "local_size",
    "membership_version",
    "name_of",
    "names_of",
    "outdated",
    "propose_new_size",
    "rank",
    "resize",
    "run_on_root",
    "shutdown",
    "size",
    "uid",
]

_SHOWN = 5  # ranks in a message

T = TypeVar("T")


def launched() -> bool:
    """Whether a launcher started this process. If not, it is one of one for ever."""
    return config.identity().peer != ""


def is_single_process() -> bool:
    """Whether this process is the only peer for ever, so that no exchange is needed."""
    return pretends_alone() or not launched() or (size() == 1 and not elastic())


def init() -> None:
    """Starts the peer. Optional: the first call that needs the peer starts it.

    Does not wait for the others: each is connected when something is sent to it.

    Raises:
        InvalidArgumentError: If a variable of the environment cannot be understood.
        FailedPreconditionError: After `shutdown`, in a process that was started by a peer, or if
            there are several peers and no secret.
        KungfuError: If the peer cannot start for another reason, such as a port that is taken.
    """
    libraries.check(libraries.core().kungfu_init())


def shutdown() -> None:
    """Ends the peer, which cannot start again. Happens by itself at exit.

    Pending operations fail with CancelledError, later ones with FailedPreconditionError. Waits up
    to 3 seconds for the other peers to take leave.
    """
    libraries.check(libraries.core().kungfu_shutdown())


def elastic() -> bool:
    """Whether peers may come and go: `kungfu-run -w`."""
    return bool(_number("kungfu_elastic"))


def joining() -> bool:
    """Whether this peer is a newcomer that was not taken in yet.

    Until then its size is 1 and its rank 0. Common things of the job, such as files, belong to the
    other peers.
    """
    return bool(_number("kungfu_joining"))


def outdated() -> bool:
    """Whether this peer knows of a newer list of peers than the one that it is in."""
    return bool(_number("kungfu_outdated"))


def detached() -> bool:
    """Whether this peer has left the job, because that has become smaller.

    Its rank is -1, its size 0, and collectives raise AbortedError. It should end, with code 0.
    """
    return size() == 0


def propose_new_size(n: int) -> None:
    """Asks the launcher for another number of peers, and returns.

    Newcomers are started, and boot while the others train. When they are ready, all peers change
    over at their next `resize`. The last proposal counts. To make the job smaller those with the
    highest ranks leave.

    Args:
        n: The number of peers, from 1 to the slots of `kungfu-run -H`.

    Raises:
        FailedPreconditionError: If there are not as many slots, or the job was not started with
            `kungfu-run -w`.
        UnavailableError: If the launcher is gone.
        DeadlineExceededError: If it does not answer.
    """
    start = libraries.core().kungfu_propose_size
    _Call().run(lambda done, number: start(n, done, number))


def resize(*, n: int | None = None, progress: int | None = None) -> bool:
    """Changes over to the newest list of peers, if it is newer than this peer's.

    All peers call it at the same point of their work, such as the end of a step. Either all of them
    change over, or none does. A newcomer calls it once before it takes part, and waits until the
    others take it in. Pending operations are over afterwards; ranks and sizes may have changed. A
    newcomer knows nothing of the training yet: broadcast the variables and the step from rank 0,
    which is never a newcomer.

    Args:
        n: The number of peers that there should be. Rank 0 proposes it (`propose_new_size`), and
            no peer waits: a later call finds the newcomers ready. Today's number takes back a
            proposal, unless the call before had it, too. Default: propose nothing.
        progress: How far the training is, the same on all peers, in a unit of the program's own.
            In a job of `kungfu-run -w -elastic-mode reload` all peers leave and start anew in
            another number, and `init_progress` returns this to them.

    Returns:
        Whether the list of peers has changed. `detached` tells whether this peer has left it.

    Raises:
        ValueError: If `progress` is negative.
        FailedPreconditionError: As from `propose_new_size`, on rank 0, once all have met. If the
            peers have changed over to an earlier proposal, `membership_version` is another one.
        AbortedError: If this peer is detached.
        UnavailableError: If a peer or the launcher is gone.
        DeadlineExceededError: If one has not come within KUNGFU_COLLECTIVE_TIMEOUT seconds.

    Example:

    ```python
    changed = kf.resize(n=4)
    ```
    """
    if progress is not None and progress < 0:
        raise ValueError(f"progress is not negative, as {progress}")
    refusal = None
    if n is not None:
        try:
            _Call().run(lambda done, number: libraries.core().kungfu_want_size(n, done, number))
        except errors.KungfuError as error:  # the others are on their way
            refusal = error
    before, was_newcomer = membership_version(), joining()
    _Call().run(lambda done, number: libraries.core().kungfu_advance(done, number))
    changed = membership_version() != before
    if changed and progress is not None and not was_newcomer:
        _write_progress(progress)
    if refusal is not None:
        raise refusal
    return changed


def rank() -> int:
    """This peer's position among all peers, from 0."""
    return 0 if pretends_alone() else _number("kungfu_rank")


def size() -> int:
    """The number of peers."""
    return 1 if pretends_alone() else _number("kungfu_size")


def pretends_alone() -> bool:
    """Whether rank and size are for a while those of a process that is alone."""
    here = context.current()
    return here.is_alone and not here.counts_peers


def local_rank() -> int:
    """This peer's position among the peers of its host, from 0."""
    return _number("kungfu_local_rank")


def local_size() -> int:
    """The number of peers on this host."""
    return _number("kungfu_local_size")


def host_count() -> int:
    """The number of hosts that have peers."""
    return _number("kungfu_host_count")


def membership_version() -> int:
    """The number of the list of peers, from 0. Each change of the list makes it one higher."""
    return _number("kungfu_membership_version")


def name_of(rank: int) -> str:
    """The address of a rank's peer, "10.0.0.1:10000"; empty if there is no such rank."""
    return libraries.core().kungfu_peer_name(rank).decode()


def names_of(ranks: Sequence[int]) -> str:
    """The same of several, for messages: "rank 0 (10.0.0.1:10000) and rank 2 (10.0.0.2:10000)"."""
    shown = [f"rank {rank} ({name_of(rank)})" for rank in ranks[:_SHOWN]]
    if len(ranks) > len(shown):
        shown.append(f"{len(ranks) - len(shown)} more ranks")
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if shown[1:] else shown)


def uid() -> int:
    """A number of 63 bits that no other peer of the job has, the same as long as the peer lives."""
    me = config.identity()
    data = f"{me.job}/{me.membership_version}/{me.peer or f'pid {os.getpid()}'}".encode()
    return libraries.core().kungfu_digest(data, len(data)) >> 1


def is_root() -> bool:
    """Whether this peer has rank 0, and is not waiting to be taken in (`joining`)."""
    return rank() == 0 and not joining()


def run_on_root(fn: Callable[[], T], *, wait: bool = False) -> T | None:
    """Calls `fn` on the peer with rank 0 only.

    Args:
        fn: A function without arguments.
        wait: Whether the other peers wait until `fn` has returned, as they must before they read a
            file that it writes. All peers call it then, in the same order.

    Returns:
        The result of `fn` on rank 0, None elsewhere.

    Raises:
        Exception: The exception of `fn`, on rank 0.
        FailedPreconditionError: With `wait`, if `fn` has failed, on the other peers.
        DeadlineExceededError: With `wait`, if `fn`, or a peer's way there, takes longer than
            KUNGFU_COLLECTIVE_TIMEOUT seconds.
        UnavailableError: With `wait`, if a peer is gone.

    Example:

    ```python
    kf.run_on_root(download, wait=True)
    images = np.load("images.npz")
    ```
    """
    try:
        result = fn() if is_root() else None
    except Exception:
        if wait:
            _largest(1, "run_on_root")
        raise
    if wait and _largest(0, "run_on_root"):
        raise errors.FailedPreconditionError(
            "run_on_root: the function has failed on rank 0, whose output says why"
        )
    return result


def barrier(*, name: str = "barrier") -> None:
    """Returns when all peers have called it.

    Args:
        name: The same on every peer. Calls of one name are matched in their order.

    Raises:
        InvalidArgumentError: If the name is empty, longer than 1024 bytes, or begins with kungfu/.
        DeadlineExceededError: If a peer has not come within KUNGFU_COLLECTIVE_TIMEOUT seconds.
        UnavailableError: If a peer is gone.
        CancelledError: If the peer is shut down in the middle.
        FailedPreconditionError: As from `init`.
    """
    if context.current().is_alone:
        return
    options = libraries.Options(name=name.encode())
    start = libraries.core().kungfu_barrier
    _Call().run(lambda done, number: start(ctypes.byref(options), done, number))


def all_reduce_int_max(x: int) -> int:
    """Returns the largest number of all peers. All call it, in the same order.

    Args:
        x: A number of 64 bits.

    Raises:
        DeadlineExceededError: If a peer has not come within KUNGFU_COLLECTIVE_TIMEOUT seconds.
        UnavailableError: If a peer is gone.
        AbortedError: If this peer is detached.
        FailedPreconditionError: As from `init`.
    """
    return _largest(x, "all_reduce_int_max")


def _largest(x: int, name: str) -> int:
    if context.current().is_alone:
        return x
    value = ctypes.c_int64(x)
    here = ctypes.addressof(value)
    spans = libraries.Span(here, here, 1)
    options = libraries.Options(name=name.encode(), dtype=libraries.INT64, op=libraries.MAX)
    start = libraries.core().kungfu_all_reduce
    refs = ctypes.byref(spans), 1, ctypes.byref(options)
    _Call(memory=value).run(lambda done, number: start(*refs, done, number))
    return value.value


def interrupt(code: int, reason: str) -> None:
    """Tells the other peers that this one leaves their common work in the middle.

    Their pending operations fail, and so do those that they start before a new epoch.

    Args:
        code: With which status code.
        reason: The text for the other peers; they learn the rank themselves.
    """
    libraries.core().kungfu_interrupt(code, reason.encode())


def interrupted() -> bool:
    """Whether the epoch was interrupted, by this peer or another."""
    return bool(_number("kungfu_interrupted"))


def begin_epoch() -> None:
    """Begins a new epoch, in which the operations of all peers are in step again.

    All peers call it and wait for each other. If the old epoch was interrupted, or is while they
    wait, each goes separately. Pending operations fail with CancelledError.

    Raises:
        UnavailableError: If a peer is gone.
        DeadlineExceededError: If one has not come within KUNGFU_COLLECTIVE_TIMEOUT seconds.
    """
    start = libraries.core().kungfu_begin_epoch
    try:
        _Call().run(lambda done, number: start(None, done, number))
    except errors.KungfuError:
        if not interrupted():
            raise
        _Call().run(lambda done, number: start(None, done, number))  # it was, meanwhile


def _write_progress(progress: int) -> None:
    """Tells the launcher, which reads it when all peers have ended."""
    path = config.run_directory() / config.PROGRESS_FILE
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(str(progress))
    new.replace(path)


class _Call:
    """One call into the core that ends later. The core holds a pointer to it until it has.

    Args:
        memory: The memory that the core reads and writes, also after a signal's handler has left
            `run`.
    """

    _numbers = itertools.count(1)
    _pending: dict[int, _Call] = {}

    def __init__(self, memory: object = None) -> None:
        self._memory = memory
        self._done = threading.Event()
        self._code = 0
        self._message = ""

    def run(self, start: Callable[[Any, int], int | None]) -> None:
        """Calls `start` with the function and the argument that the core wants, and waits."""
        number = next(self._numbers)
        self._pending[number] = self
        operation = start(self._on_done, number)
        try:
            self._done.wait()  # the core has the deadline
        except BaseException:  # of a signal's handler
            if operation is not None:
                libraries.core().kungfu_cancel(operation, 0, b"")
            raise
        if self._code != 0:
            raise errors.from_code(self._code, self._message)

    @staticmethod
    @libraries.Done
    def _on_done(number: int, code: int, message: bytes | None) -> None:
        call = _Call._pending.pop(number)
        call._code, call._message = code, (message or b"").decode(errors="replace")
        call._done.set()


def _number(function: str) -> int:
    value: int = getattr(libraries.core(), function)()
    if value < 0:
        libraries.check(libraries.core().kungfu_init())  # says why there is no peer
    return value
