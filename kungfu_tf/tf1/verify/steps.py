"""The first runs of a session that train, each verified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context as eager

from kungfu_tf import peer
from kungfu_tf.replicas import gates
from kungfu_tf.replicas.equality import check_equal
from kungfu_tf.tf1.verify.trial import Run, Trials
from kungfu_tf.verification import batches, exchanges, unverified
from kungfu_tf.verification.account import Account
from kungfu_tf.verification.exchanges import Exchange
from kungfu_tf.verification.step import verify

_NOT_FED = (
    "the batches are read by the graph. Feed them, by feed_dict, and each step can be verified"
)


class Verification:
    """Of one session, and one list of peers.

    Args:
        session: A session whose graph has gates.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self._account = Account("the session")
        self._version = peer.membership_version()
        self._why = ""
        self._compared = 0
        if not self._account.has_ended:
            unverified.at_end(self._end)

    @classmethod
    def of(cls, session: Any) -> Verification:
        """That of this session, with the peers of now: all begin it at the same step."""
        known = getattr(session, "_kungfu_verification", None)
        if known is None or known._version != peer.membership_version():
            known = session._kungfu_verification = cls(session)
        return known

    def run(self, run: Run, fetches: Any, feed_dict: Mapping[Any, Any] | None) -> Any:
        """Runs the fetches; verifies what they train, or says why it cannot.

        Args:
            run: Runs fetches, with a `feed_dict`.
            fetches: What the program asks for.
            feed_dict: What it feeds.

        Returns:
            What was asked for.

        Raises:
            VerificationError: On every peer, if the run is not the step of a single process.
            DivergenceError: On every peer, if variables differ after it.
        """
        reached = gates.gates_reached(self._session.graph, fetches)
        if self._account.has_ended or not reached or peer.size() == 1:
            return run(fetches, feed_dict=feed_dict)
        found = _reached(self._session.graph, fetches)
        trials = Trials(run, self._session.graph, fetches, feed_dict or {}, found)
        with eager.eager_mode():
            result = self._verified(trials, reached, found, feed_dict or {})
            if all(exchange.keeps_equal for exchange in found):
                self._compare(trials)
        if self._account.is_enough:
            self._end()
        return result

    def _verified(
        self, trials: Trials, reached: Sequence[Any], found: Sequence[Exchange], feed: Any
    ) -> Any:
        joint = None
        if not all(exchange.keeps_equal for exchange in found):
            self._why = unverified.OWN_MODELS
        elif any(gate.sources for gate in reached) or not feed:
            self._why = _NOT_FED
        else:
            joint = batches.gather([np.asarray(value) for value in feed.values()])
            verify(self._account, joint, trials)
            if not trials.can_update:
                note = "their updates are not: a fetch needs another operation of kungfu_tf"
                self._account.notes = [note]
        self._account.tried += 1
        if trials.result is None:
            trials.together([])
        return trials.result

    def _compare(self, trials: Trials) -> None:
        values = trials.trained_values()
        variables = [tf.Variable(value, name=name) for name, value in values.items()]
        check_equal(variables, f"after step {self._account.tried} of the session")
        self._compared = len(variables)

    def _end(self) -> None:
        if not self._account.tried:
            return
        if not self._account.has_ended and self._why:
            equal = f" but that its {self._compared} variables are equal on all peers: "
            self._account.cannot(self._why, but=equal if self._compared else ": ")
        self._account.end()


def _reached(graph: Any, fetches: Any) -> list[Exchange]:
    """The exchanges that a run of these fetches passes."""
    upstream = gates.upstream_of(graph, fetches)
    return [
        exchange
        for exchange in exchanges.of(graph)
        if any(gradient.op in upstream for gradient in exchange.exchanged)
    ]
