"""The lead of a job on several hosts, which a store gives to one runner at a time."""

import contextlib
import json
import math
import os
import selectors
import subprocess
import time
from typing import Any

from kungfu_tf.launcher.document import claim_process, own_process
from kungfu_tf.launcher.placing.hosts import IPAddress

NAME = "leader"

_LONGEST = 64 << 10
_FRESH = claim_process.SECONDS - 1.0  # an answer takes some time
_GOODBYE = 2.0


class Lease:
    """Claims the lead for this runner until it is closed. Used by the event loop's thread only.

    Attributes:
        holder: The address of the runner that leads, as the store has said last; None: it has not.
        trouble: Why the store does not say it; None: it does.

    Args:
        url: The URL of the store.
        secret: The secret for it.
        here: The address of this host.
        selector: The selector of the event loop.
    """

    def __init__(
        self, url: str, secret: str, here: IPAddress, selector: selectors.BaseSelector
    ) -> None:
        self.holder: str | None = None
        self.trouble: str | None = None
        self._here = str(here)
        self._selector = selector
        self._held = -math.inf  # when this runner has held it last
        self._received = b""
        self._process = own_process.start(
            claim_process.__name__, url, NAME, self._here, secret=secret, environ=os.environ
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        os.set_blocking(self._output.fileno(), False)
        selector.register(self._output, selectors.EVENT_READ, self._read)

    @property
    def is_held(self) -> bool:
        """Whether no other runner can lead now."""
        return time.monotonic() < self._held + _FRESH

    @property
    def successor(self) -> str | None:
        """The address of the runner that has taken the lead away from this one; None: none has."""
        was_held = self._held > -math.inf
        return self.holder if was_held and self.holder != self._here else None

    def close(self) -> None:
        """Gives the lead up, if that does not take long."""
        self._hang_up()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_GOODBYE)
            return
        self._process.kill()
        self._process.wait()

    def _hang_up(self) -> None:
        if not self._output.closed:
            self._selector.unregister(self._output)
            self._output.close()
            self._input.close()

    def _read(self, _events: int) -> None:
        data = self._output.read(_LONGEST)
        if data is None:
            return
        if not data:
            self.trouble = "cannot be asked: the process that does it has ended"
            self._hang_up()
            return
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._take(json.loads(line))

    def _take(self, heard: dict[str, Any]) -> None:
        self.trouble = heard.get("trouble")
        if self.trouble is None:
            self.holder = heard["holder"]
            if self.holder == self._here:
                self._held = time.monotonic()
