"""Writes to a descriptor without blocking the event loop."""

import os
import select
import stat

_PIPE_BUF = select.PIPE_BUF
_FILE_CHUNK = 1 << 20
_CONGESTED = 1 << 20


class Sink:
    """A queue before a descriptor. Used by the launcher's only thread.

    Whole lines go out in one write if they fit into PIPE_BUF bytes, which a pipe or terminal that
    is writable takes at once. If the reader goes away the output ends, and not the job.

    Attributes:
        error: Why nothing can be written any more; None if it can.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._queue = bytearray()
        self.error: str | None = None
        try:
            status = os.fstat(fd)
        except OSError as error:
            self.error = error.strerror
            return
        self.identity = (status.st_dev, status.st_ino)
        self._chunk = _FILE_CHUNK if stat.S_ISREG(status.st_mode) else _PIPE_BUF
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    def fileno(self) -> int:
        return self._fd

    @property
    def waiting(self) -> bool:
        return bool(self._queue)

    @property
    def congested(self) -> bool:
        """Whether so much is waiting that the peers should not be read any further."""
        return len(self._queue) > _CONGESTED

    def put(self, data: bytes) -> None:
        if self.error is None:
            self._queue += data
            self.pump()

    def drop(self) -> None:
        self._queue.clear()

    def pump(self, timeout: float = 0.0) -> None:
        """Writes what the descriptor takes, after it was waited for up to `timeout` seconds."""
        while self._queue and self._poll.poll(int(timeout * 1000)):
            timeout = 0.0
            end = min(len(self._queue), self._chunk)
            end = self._queue.rfind(b"\n", 0, end) + 1 or end
            try:
                del self._queue[: os.write(self._fd, self._queue[:end])]
            except BlockingIOError:
                return
            except OSError as error:
                self.error = error.strerror
                self._queue.clear()
