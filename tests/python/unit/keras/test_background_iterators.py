"""On which thread the iterators of an epoch end."""

from __future__ import annotations

import queue
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import tensorflow as tf

from kungfu_tf.keras.fit.background_iterators import BackgroundIterators

SECONDS = 60
HERE = threading.get_ident


def noting(iterator: Any) -> queue.SimpleQueue[int]:
    """Where the thread will be that drops the iterator last."""
    threads: queue.SimpleQueue[int] = queue.SimpleQueue()
    weakref.finalize(iterator, lambda: threads.put(HERE()))
    return threads


def test_the_next_pass_ends_the_last_one_elsewhere() -> None:
    iterators = BackgroundIterators(tf.data.Dataset.range(3))
    over = iter(iterators)
    threads = noting(over)
    del over
    assert [int(number) for number in iterators] == [0, 1, 2]
    assert threads.get(timeout=SECONDS) != HERE()


def test_the_last_pass_ends_elsewhere() -> None:
    iterators = BackgroundIterators(tf.data.Dataset.range(3))
    threads = noting(iter(iterators))
    iterators.close()
    assert threads.get(timeout=SECONDS) != HERE()


def test_a_program_that_holds_a_pass_for_longer_does_not_end_it() -> None:
    iterators = BackgroundIterators(tf.data.Dataset.range(3))
    held = iter(iterators)
    threads = noting(held)
    iterators.close()
    time.sleep(0.5)  # as a slow first step of the next epoch does
    assert threads.empty()
    del held
    assert threads.get(timeout=SECONDS) != HERE()


def test_what_caches_in_a_file_ends_a_pass_before_the_next(tmp_path: Path) -> None:
    """Two must not write the file at a time."""
    numbers = tf.data.Dataset.range(3).cache(str(tmp_path / "cache"))
    iterators = BackgroundIterators(tf.data.Dataset.zip((numbers, numbers)).map(lambda a, b: a + b))
    threads = noting(iter(iterators))
    assert threads.get(timeout=0) == HERE()


def test_a_pass_through_another_dataset() -> None:
    """The elements are those that passes of the dataset have, which shuffles them each time."""

    def shuffled() -> tf.data.Dataset:
        return tf.data.Dataset.range(20).cache().shuffle(20, seed=7, reshuffle_each_iteration=True)

    looked: list[int] = []

    def look(number: Any) -> Any:
        return tf.numpy_function(lambda n: looked.append(int(n)) or n, [number], tf.int64)

    dataset = shuffled()
    iterators = BackgroundIterators(dataset, lambda: None if looked else dataset.map(look))
    seen = [[int(number) for number in iterators] for _ in range(3)]
    expected = shuffled()
    assert seen == [[int(number) for number in expected] for _ in range(3)]
    assert looked == seen[0]


def test_what_caches_in_memory_need_not() -> None:
    iterators = BackgroundIterators(tf.data.Dataset.range(3).cache())
    threads = noting(iter(iterators))
    assert threads.empty()


def test_it_looks_like_the_dataset() -> None:
    dataset = tf.data.Dataset.range(3)
    iterators = BackgroundIterators(dataset)
    assert iterators.element_spec == dataset.element_spec
    assert int(tf.data.experimental.cardinality(iterators)) == 3
