"""This process as a peer: its identity, the other peers, and calls that all of them make together.

The first exchange starts the peer. Without the launcher the process is the only peer. Reading ranks
and sizes starts nothing, so a data worker that the peer has started may do that, too.

Each function here may raise

    LibraryError                the core is missing, or its version is not that of the package
    InvalidArgumentError        an environment variable cannot be parsed
    FailedPreconditionError     after `shutdown`

A function that starts the peer may also raise

    FailedPreconditionError     in a process that a peer has started; if there are several peers and
                                no secret
    KungfuError                 the peer cannot start, for instance because its port is taken; the
                                message says why

In a job whose peers change (`kungfu-run -w`), a process that a peer has spawned does not learn of
changes; so ranks and sizes raise FailedPreconditionError there.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from kungfu_tf import config, context, errors
from kungfu_tf.native import calls, foreign_job, libraries

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
    """Whether a launcher started this process. If not, it stays the only one."""
    foreign_job.join()
    return config.identity().peer != ""


def is_single_process() -> bool:
    """Whether this process is and stays the only peer, so that no exchange is needed."""
    return pretends_alone() or not launched() or (size() == 1 and not elastic())


def init() -> None:
    """Starts the peer. Optional: the first call that needs the peer starts it.

    Does not wait for the others: each is connected when something is sent to it.

    Raises:
        InvalidArgumentError: If an environment variable cannot be parsed.
        FailedPreconditionError: After `shutdown`, in a process that was started by a peer, or if
            there are several peers and no secret.
        KungfuError: If the peer cannot start for another reason, such as a port that is taken.
    """
    foreign_job.join()
    libraries.check(libraries.core().kungfu_init())


def shutdown() -> None:
    """Ends the peer, which cannot start again. Happens by itself at exit.

    Pending operations fail with CancelledError, later ones with FailedPreconditionError. It
    waits up to 3 seconds for the other peers to say goodbye.
    """
    libraries.check(libraries.core().kungfu_shutdown())


def elastic() -> bool:
    """Whether peers may come and go: `kungfu-run -w`."""
    return bool(calls.number("kungfu_elastic"))


def joining() -> bool:
    """Whether this peer is a newcomer that has not been taken in yet.

    Until then its size is 1 and its rank 0, but it must leave the job's files to the other peers.
    """
    return bool(calls.number("kungfu_joining"))


def outdated() -> bool:
    """Whether this peer knows of a newer list of peers than the one that it is in."""
    return bool(calls.number("kungfu_outdated"))


def survives() -> bool:
    """Whether the others go on when a peer is lost: `kungfu-run -on-failure survive`."""
    return bool(libraries.core().kungfu_repeats())


def detached() -> bool:
    """Whether this peer has left the job, because the job has become smaller.

    Its rank is -1, its size 0, and collectives raise AbortedError. It should end, with code 0.
    """
    return size() == 0


def give_notice() -> bool:
    """Says that this peer got SIGTERM. Returns whether it may leave; else the whole job ends."""
    return _is_accepted(libraries.core().kungfu_give_notice)


def leave() -> bool:
    """Leaves the job between two steps: the others go on. Returns False if the job ends."""
    return _is_accepted(libraries.core().kungfu_leave)


def _is_accepted(question: Callable[..., None]) -> bool:
    try:
        calls.run(question)
    except errors.FailedPreconditionError:
        return False
    return True


def propose_new_size(n: int) -> None:
    """Asks the launcher for another number of peers, and returns.

    Newcomers start while the others train. When they are ready, all peers change over at their next
    `resize`. The last proposal counts. If the job becomes smaller, the peers with the highest ranks
    leave.

    Args:
        n: The number of peers, from 1 to the slots of `kungfu-run -H`.

    Raises:
        FailedPreconditionError: If there are not that many slots, or the job was not started with
            `kungfu-run -w`.
        UnavailableError: If the launcher is gone.
        DeadlineExceededError: If it does not answer.
    """
    calls.run(libraries.core().kungfu_propose_size, n)


def resize(*, n: int | None = None, progress: int | None = None) -> bool:
    """Changes over to the newest list of peers, if it is newer than this peer's.

    All peers call it at the same point of their work, such as the end of a step. Either all of them
    change over, or none does. A newcomer calls it once before it takes part, and waits until the
    others take it in. Afterwards no operation is pending, and ranks and sizes may have changed. A
    newcomer knows nothing of the training yet: broadcast the variables and the step from rank 0,
    which is never a newcomer.

    Args:
        n: The wanted number of peers. Rank 0 proposes it (`propose_new_size`), and no peer waits: a
            later call takes the newcomers in when they are ready. The current number withdraws a
            proposal, unless the previous call asked for it, too. Default: propose nothing.
        progress: How far the training is, the same on all peers, in any unit. With
            `kungfu-run -w -elastic-mode reload` all peers leave, and as many as are wanted start
            anew. `init_progress` returns this number to them.

    If peers are lost (`kungfu-run -on-failure survive`), the others have changed over already, each
    at another point of its work. The next call that all make tells all of them.

    Returns:
        Whether the list of peers has changed since the last call; the same on all peers. `detached`
        tells whether this peer has left it.

    Raises:
        ValueError: If `progress` is negative.
        FailedPreconditionError: As from `propose_new_size`, on rank 0, once all peers have met. If
            they have changed over to an earlier proposal, `membership_version` has changed.
        AbortedError: If this peer is detached.
        UnavailableError: If a peer or the launcher is gone.
        DeadlineExceededError: If a peer does not call it within KUNGFU_COLLECTIVE_TIMEOUT seconds.

    Example:

    ```python
    changed = kf.resize(n=4)
    ```
    """
    if progress is not None and progress < 0:
        raise ValueError(f"progress must not be negative, as {progress} is")
    refusal = None
    if n is not None:
        try:
            calls.run(libraries.core().kungfu_want_size, n)
        except errors.KungfuError as error:  # raised below: the others are about to meet
            refusal = error
    before, was_newcomer = agreed_version(), joining()
    calls.run(libraries.core().kungfu_advance)
    changed = agreed_version() != before
    if changed and progress is not None and not was_newcomer:
        _write_progress(progress)
    if refusal is not None:
        raise refusal
    return changed


def rank() -> int:
    """This peer's position among all peers, from 0."""
    if pretends_alone():
        return 0
    group = context.current().group
    return rank_among_all() if group is None else group.rank()


def rank_among_all() -> int:
    """This peer's position among all peers, also while a group's ranks count."""
    return calls.number("kungfu_rank")


def size() -> int:
    """The number of peers."""
    return _size("kungfu_size")


def _size(function: str) -> int:
    if pretends_alone():
        return 1
    group = context.current().group
    return calls.number(function) if group is None else group.size()


def pretends_alone() -> bool:
    """Whether rank and size are, for a while, those of a process without others."""
    here = context.current()
    return here.is_alone and not here.counts_peers


def local_rank() -> int:
    """This peer's position among the peers of its host, from 0."""
    return calls.number("kungfu_local_rank")


def local_size() -> int:
    """The number of peers on this host."""
    return calls.number("kungfu_local_size")


def host_count() -> int:
    """The number of hosts that have peers."""
    return calls.number("kungfu_host_count")


def membership_version() -> int:
    """The version of the list of peers: from 0, one more with each change of the list."""
    return calls.number("kungfu_membership_version")


def agreed_version() -> int:
    """The version of the list of peers of which all peers know. It changes in `resize` only.

    If a peer is lost, `membership_version` changes at once, on each peer at another point of its
    work. What all must do at the same point depends on this version.
    """
    return calls.number("kungfu_agreed_version")


def agreed_size() -> int:
    """The number of peers in the list of `agreed_version`.

    It is for what must be the same on all peers in each step, such as a learning rate. On a
    detached peer it is not 0.
    """
    return _size("kungfu_agreed_size")


def name_of(rank: int) -> str:
    """The address of a rank's peer, "10.0.0.1:10000"; empty if there is no such rank."""
    foreign_job.join()
    return libraries.core().kungfu_peer_name(rank).decode()


def names_of(ranks: Sequence[int]) -> str:
    """Ranks with their addresses: "rank 0 (10.0.0.1:10000) and rank 2 (10.0.0.2:10000)"."""
    shown = [f"rank {rank} ({name_of(rank)})" for rank in ranks[:_SHOWN]]
    if len(ranks) > len(shown):
        shown.append(f"{len(ranks) - len(shown)} more ranks")
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if shown[1:] else shown)


def uid() -> int:
    """A number of 63 bits that no other peer of the job has, and that stays the same."""
    foreign_job.join()
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
        DeadlineExceededError: With `wait`, if `fn` takes longer than KUNGFU_COLLECTIVE_TIMEOUT
            seconds, or a peer calls this later than that.
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
            calls.largest_of_all(1, "run_on_root")
        raise
    if wait and calls.largest_of_all(0, "run_on_root"):
        raise errors.FailedPreconditionError(
            "run_on_root: the function has failed on rank 0, whose output says why"
        )
    return result


def barrier(*, name: str = "barrier") -> None:
    """Waits until all peers have called it.

    Args:
        name: The same on every peer. Calls of one name are matched in their order.

    Raises:
        InvalidArgumentError: If the name is empty, longer than 1024 bytes, or begins with kungfu/.
        DeadlineExceededError: If a peer does not call it within KUNGFU_COLLECTIVE_TIMEOUT seconds.
        UnavailableError: If a peer is gone.
        CancelledError: If the peer is shut down meanwhile.
        FailedPreconditionError: As from `init`.
    """
    if context.current().is_alone:
        return
    options = calls.options(name)
    calls.run(libraries.core().kungfu_barrier, ctypes.byref(options))


def all_reduce_int_max(x: int) -> int:
    """Returns the largest of all peers' numbers. All peers call it, in the same order.

    Args:
        x: A number of 64 bits.

    Raises:
        DeadlineExceededError: If a peer does not call it within KUNGFU_COLLECTIVE_TIMEOUT seconds.
        UnavailableError: If a peer is gone.
        AbortedError: If this peer is detached.
        FailedPreconditionError: As from `init`.
    """
    return x if context.current().is_alone else calls.largest_of_all(x, "all_reduce_int_max")


def interrupt(code: int, reason: str) -> None:
    """Tells the other peers that this one abandons their common work.

    Their pending operations fail, and so do those that they start before a new epoch.

    Args:
        code: The status code of their errors.
        reason: The text for the other peers, which add the rank themselves.
    """
    libraries.core().kungfu_interrupt(code, reason.encode())


def interrupted() -> bool:
    """Whether the epoch was interrupted, by this peer or another."""
    return bool(calls.number("kungfu_interrupted"))


def begin_epoch() -> None:
    """Begins a new epoch, in which the operations of all peers match again.

    All peers call it and wait for each other. If the old epoch was interrupted, or is while they
    wait, each begins the new one by itself. Pending operations fail with CancelledError.

    Raises:
        UnavailableError: If a peer is gone.
        DeadlineExceededError: If a peer does not call it within KUNGFU_COLLECTIVE_TIMEOUT seconds.
    """
    begin = libraries.core().kungfu_begin_epoch
    try:
        calls.run(begin, None)
    except errors.KungfuError:
        if not interrupted():
            raise
        calls.run(begin, None)  # the old epoch was interrupted while this peer waited


def _write_progress(progress: int) -> None:
    """Leaves the progress for the launcher, which reads it when all peers have ended."""
    path = config.run_directory() / config.PROGRESS_FILE
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(str(progress))
    new.replace(path)
