"""The private directory of a runner: its control socket and the Unix sockets of its peers."""

import dataclasses
import os
import secrets
import tempfile

from kungfu_tf.launcher.errors import LaunchError

# A Unix socket's path has at most 107 bytes; peers need about 50 for a name.
_LONGEST = 56


@dataclasses.dataclass(frozen=True)
class RunDirectory:
    """`runner` names this launcher in the environment of all that it starts."""

    path: str
    runner: str

    @property
    def control(self) -> str:
        return os.path.join(self.path, "control.sock")

    @property
    def debug_token(self) -> str:
        return os.path.join(self.path, "debug-token")

    def create(self) -> None:
        """Raises LaunchError if it cannot be made, also if somebody else has made it before."""
        try:
            os.mkdir(self.path, 0o700)
        except OSError as error:
            raise LaunchError(f"cannot make the directory {self.path}: {error.strerror}") from None


def choose() -> RunDirectory:
    """A name nobody can guess, in the temporary directory; /tmp if that one's path is too long."""
    token = secrets.token_hex(8)
    path = os.path.join(tempfile.gettempdir(), f"kungfu-{token}")
    if len(os.fsencode(path)) > _LONGEST:
        path = f"/tmp/kungfu-{token}"
    return RunDirectory(path, token)
