"""The part of a peer that serves variables to all: applies what is pushed, publishes the result.

Each peer that owns variables has one thread for each peer that pushes. So nobody waits for the
owner's own training step. The updates themselves are made one after the other.

Between two meetings each peer takes as many steps as it has batches. One that has no more *rests*:
the clock leaves it out, so those that still train do not wait for it. When all rest, they meet, and
the next steps of all have one number, as if each had made as many as that with most.
"""

from __future__ import annotations

import contextlib
import enum
import threading
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import peer
from kungfu_tf.exchange.parcel import Parcel
from kungfu_tf.ops import store
from kungfu_tf.ops.queue import Queue, new_queue

_CAPACITY = 2  # what a peer may say before an owner listens: its push, and that it rests
_PATIENCE = 5.0  # seconds of a wait that begins anew: a peer may be long between two pushes


class Word(enum.IntEnum):
    """What a peer says to an owner."""

    PUSH = 0  # its gradients follow
    REST = 1  # no push before the next meeting
    END = 2  # no push any more


class Way:
    """From a peer that pushes to an owner. Both make it.

    Args:
        title: The prefix of all names.
        pusher: The rank of the one.
        owner: The rank of the other.
        timeout: Seconds that a wait takes; None: KUNGFU_COLLECTIVE_TIMEOUT.
    """

    def __init__(self, title: str, pusher: int, owner: int, timeout: float | None = None) -> None:
        self._title = title
        self._pusher = pusher
        self._owner = owner
        self._timeout = timeout

    @property
    def words(self) -> Queue:
        """What the peer says, int64 scalars."""
        return self._queue("words")

    def rows(self, dtype: tf.DType) -> Queue:
        """The gradients of a dtype, one row for each push."""
        return self._queue(f"pushes/{dtype.name}")

    def say(self, word: Word) -> None:
        """Says a word. A push's rows follow."""
        self.words.put(tf.constant(word, tf.int64))

    def _queue(self, name: str) -> Queue:
        return new_queue(
            self._pusher,
            self._owner,
            capacity=_CAPACITY,
            timeout=self._timeout,
            name=f"{self._title}/{name}",
        )


def applied_of(title: str, pusher: int) -> str:
    """The name under which an owner publishes how many steps of a peer it has applied."""
    return f"{title}/applied/{pusher}"


def weights_of(title: str, owner: int, dtype: tf.DType) -> str:
    """The name under which an owner publishes its variables of a dtype."""
    return f"{title}/weights/{owner}/{dtype.name}"


class ParameterServer:
    """Serves this peer's variables from `start` to `join`.

    What it keeps in the store, each under `title`:

    - `weights/<owner>/<dtype>`: the variables, after each update;
    - `applied/<pusher>`: version c when it has applied step c of that peer;
    - `clock`: version c when every peer that does not rest has made c − `staleness` steps;
    - `rest`: version m when all peers rest before meeting m, which count from 0.

    Args:
        title: The prefix of all names.
        variables: The variables that this peer owns, at least one.
        apply: Makes an update of them from their gradients.
        staleness: How many steps a peer may be ahead; None: any number.
    """

    def __init__(
        self,
        title: str,
        variables: Sequence[Any],
        apply: Callable[[list[Any]], None],
        staleness: int | None,
    ) -> None:
        self._title = title
        self._variables = list(variables)
        self._parcel = Parcel(variables)
        self._staleness = staleness
        self._apply = tf.function(self._updated, autograph=False)
        self._gradients_applied = apply
        self._lock = threading.Lock()
        self._steps: dict[int, int] = dict.fromkeys(range(peer.size()), 0)  # of who does not rest
        self._clock = -1
        self._meeting = 0
        self._threads: list[threading.Thread] = []
        self._failure: BaseException | None = None

    def start(self) -> None:
        """Begins to take pushes."""
        self._advance()
        for rank in list(self._steps):
            name = f"{self._title} of rank {rank}"
            thread = threading.Thread(target=self._serve, args=(rank,), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def check(self) -> None:
        """Raises what has ended a thread before its time."""
        if self._failure is not None:
            raise self._failure

    def settle(self) -> None:
        """Waits until all peers rest. Then all that they have pushed has been applied.

        Raises:
            tf.errors.OpError: As from `kungfu_tf.ops.request_variable`.
        """
        self.check()
        number = tf.TensorSpec([], tf.int64)
        store.request_group(peer.rank(), [number], f"{self._title}/rest", self._meeting)
        self.check()

    def begin_anew(self, step: int) -> None:
        """Ends a meeting, in which all peers rest.

        Args:
            step: The number of steps that each has made from now on, the largest of all.
        """
        with self._lock:
            self._meeting += 1
            self._steps = dict.fromkeys(range(peer.size()), step)
            self._advance()

    def join(self) -> None:
        """Waits until all peers have said that they push no more."""
        for thread in self._threads:
            while thread.is_alive():
                thread.join(_PATIENCE)
                self.check()

    def _serve(self, rank: int) -> None:
        way = Way(self._title, rank, peer.rank(), _PATIENCE)
        try:
            while (word := int(self._next(way.words, tf.int64, []))) != Word.END:
                if word == Word.PUSH:
                    self._take_push(rank, way)
                else:
                    self._take_rest(rank)
        except Exception as error:  # the training step raises it
            self._fail(error)

    def _take_push(self, rank: int, way: Way) -> None:
        dtypes = self._parcel.places
        rows = [self._next(way.rows(d), d, [self._parcel.length(d)]) for d in dtypes]
        with self._lock:
            self._apply(*rows)
            self._steps[rank] += 1
            self._publish(applied_of(self._title, rank), self._steps[rank])
            self._advance()

    def _take_rest(self, rank: int) -> None:
        with self._lock:
            del self._steps[rank]
            self._advance()
            if not self._steps:
                self._publish(f"{self._title}/rest", self._meeting)

    def _fail(self, error: Exception) -> None:
        """Keeps the first failure. This peer waits no more, so that it sees that."""
        rank, title = peer.rank(), self._title
        with self._lock:
            if self._failure is not None:  # which others come of
                return
            self._failure = error
            step = self._steps.get(rank, -1) + 1
            for name, number in ((f"{title}/rest", self._meeting), (applied_of(title, rank), step)):
                with contextlib.suppress(tf.errors.InvalidArgumentError):  # another one has done so
                    self._publish(name, number, keep=2)  # it may be about to ask for the one before

    def _next(self, queue: Queue, dtype: tf.DType, shape: list[int]) -> Any:
        while True:
            try:
                return queue.get(dtype, shape)
            except tf.errors.DeadlineExceededError:
                self.check()  # another thread's: then nobody trains any more

    def _updated(self, *rows: Any) -> None:
        self._gradients_applied(self._parcel.unpack(rows))
        for dtype, places in self._parcel.places.items():
            values = [self._variables[i].read_value() for i in places]
            store.save_group(values, weights_of(self._title, peer.rank(), dtype), keep=1)

    def _advance(self) -> None:
        """Publishes the clock, each number once: a peer waits for the one of its own step."""
        if self._staleness is None or not self._steps:
            return
        now = min(self._steps.values()) + self._staleness
        for number in range(self._clock + 1, now + 1):
            self._publish(f"{self._title}/clock", number, keep=self._staleness + 1)
        self._clock = now

    def _publish(self, name: str, number: int, *, keep: int = 1) -> None:
        value = tf.constant(number, tf.int64)
        store.save_group([value], name, number, keep=keep)
