"""What a client of a config server makes of its answers."""

import pytest

from kungfu_tf.launcher.document.config_client import Client, Conflict, Missing, Problem
from tests.python.launcher.served import NONSENSE, ONE, TOKEN, TWO, Served, answering


def test_what_a_client_makes_of_answers(served: Served) -> None:
    served.store.clear()
    with pytest.raises(Missing):
        Client(served.url, TOKEN).get()
    served.store.reset(TWO)
    with pytest.raises(Conflict):
        Client(served.url, TOKEN).put("/put", {**ONE.to_json(), "version": 0})


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_nonsense_is_a_problem(nonsense: bytes) -> None:
    with answering([nonsense]) as (url, asked):
        with pytest.raises(Problem, match="answer"):
            Client(url, TOKEN).get()
        assert len(asked) == 1
