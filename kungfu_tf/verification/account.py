"""What was verified of a training: counted, and said in one line at its end."""

from __future__ import annotations

from typing import NoReturn

from kungfu_tf import config, errors, peer
from kungfu_tf.ops.any_tensors import gather_any
from kungfu_tf.verification import silence


def say(text: str) -> None:
    """Says a line of -verify, once for all peers."""
    if peer.is_root():
        silence.speak(text)


class Account:
    """Of one training.

    Args:
        subject: What is trained, or trains, as messages call it.

    Attributes:
        tried: How many steps were looked at.
        done: How many of them were verified.
        left_out: The classes of layers that were left out.
        notes: What else the last line says.
    """

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.tried = self.done = 0
        self.left_out: set[str] = set()
        self.notes: list[str] = []
        self._wanted = config.VERIFY.get()
        self.has_ended = not self._wanted or peer.is_single_process()

    @property
    def is_enough(self) -> bool:
        """Whether as many steps were looked at as are wanted."""
        return self.tried >= self._wanted

    def end(self) -> None:
        """Says what was verified, once."""
        if self.has_ended:
            return
        if self.done == 0:
            self.cannot("no step had a batch of tensors on each peer")
            return
        self.has_ended = True
        steps = f"{self.done} step" + ("s" if self.done > 1 else "")
        notes = "".join(f"; {note}" for note in self.notes)
        say(
            f"verified: {steps} of {self.subject} on {peer.size()} peers are those of a single "
            f"process with their samples{self._without()}{notes}"
        )

    def cannot(self, why: str, *, but: str = ": ") -> None:
        """Says that nothing more is verified.

        Args:
            why: The reason.
            but: What comes before it: what is known nevertheless.
        """
        self.has_ended = True
        steps = f"after {self.done} steps that are right, nothing more" if self.done else "nothing"
        say(f"{steps} is verified of {self.subject}{but}{why}")

    def fail(self, text: str) -> NoReturn:
        """Raises a VerificationError for the step that is looked at."""
        raise errors.VerificationError(
            f"step {self.tried + 1} of {self.subject} on {peer.size()} peers is not that of a "
            f"single process with their samples: {text}{self._without()}"
        )

    def fail_if(self, found: str) -> None:
        """Does so on every peer if rank 0 has found something. All call it."""
        if text := of_root(found):
            self.fail(text)

    def _without(self) -> str:
        left_out = ", ".join(sorted(self.left_out))
        return f" (not comparable: {left_out}; verified without)" if left_out else ""


def of_root(text: str) -> str:
    """Rank 0's text, on every peer."""
    [told, *_] = gather_any([text], name="verify/told")
    found: str = told[0].item().decode()
    return found
