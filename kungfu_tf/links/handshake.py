"""Lets two processes of a job prove to each other that they know its secret, without sending it.

Each sends a nonce, and answers the other's with an HMAC-SHA256 under the secret. It covers the
sender's role, the job's id, both nonces, and the address of the one that wants to be taken in.
"""

import dataclasses
import hashlib
import hmac
import re
import secrets

from kungfu_tf.links.credentials import Credentials

PROTOCOL = "kungfu-runner 2"

_GREETING = re.compile(re.escape(PROTOCOL) + " ([0-9a-f]{32})")
_HELLO = re.compile("hello ([0-9a-f.:,]{1,80}) ([0-9a-f]{32}) ([0-9a-f]{64})")
_WELCOME = re.compile("welcome ([0-9a-f]{64})")


@dataclasses.dataclass(frozen=True)
class Asked:
    """The side that is asked. It greets, and takes the other one in if its hello is right."""

    credentials: Credentials
    nonce: str = dataclasses.field(default_factory=lambda: secrets.token_hex(16))

    @property
    def greeting(self) -> str:
        return f"{PROTOCOL} {self.nonce}"

    def answer(self, line: str) -> tuple[str, str] | None:
        """The address that a hello proves, and the line that answers it; None if it is wrong."""
        match = _HELLO.fullmatch(line)
        if match is None:
            return None
        address, nonce, proof = match.groups()
        right = _proof(self.credentials, "follower", self.nonce, nonce, address)
        if not hmac.compare_digest(proof, right):
            return None
        own = _proof(self.credentials, "leader", self.nonce, nonce, address)
        return address, f"welcome {own}"


class Asking:
    """The side that wants to be taken in."""

    def __init__(self, credentials: Credentials, address: str) -> None:
        self._credentials = credentials
        self._address = address
        self._nonces = ("", secrets.token_hex(16))

    def hello(self, greeting: str) -> str | None:
        """The line that answers a greeting; None if it is not that of a runner of this version."""
        match = _GREETING.fullmatch(greeting)
        if match is None:
            return None
        self._nonces = (match[1], self._nonces[1])
        proof = _proof(self._credentials, "follower", *self._nonces, self._address)
        return f"hello {self._address} {self._nonces[1]} {proof}"

    def welcomed(self, line: str) -> bool:
        """Whether the answer proves that the other side knows the secret."""
        match = _WELCOME.fullmatch(line)
        right = _proof(self._credentials, "leader", *self._nonces, self._address)
        return match is not None and hmac.compare_digest(match[1], right)


def _proof(credentials: Credentials, role: str, asked: str, asking: str, address: str) -> str:
    words = "\0".join((PROTOCOL, role, credentials.job_id, asked, asking, address))
    return hmac.new(credentials.secret.encode(), words.encode(), hashlib.sha256).hexdigest()
