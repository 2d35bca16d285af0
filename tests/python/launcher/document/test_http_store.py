"""The store of a config server, as its clients see it."""

import pytest

from kungfu_tf.launcher.document.http_store import HttpStore
from kungfu_tf.launcher.document.store import Problem
from tests.python.launcher.served import NONSENSE, TOKEN, answering


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_nonsense_is_a_problem(nonsense: bytes) -> None:
    with answering([nonsense]) as (url, asked):
        with pytest.raises(Problem, match="answer"):
            HttpStore(url, TOKEN).get()
        assert len(asked) == 1
