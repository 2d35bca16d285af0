"""What a peer's program of these tests needs of the core: no TensorFlow, so it starts at once."""

import ctypes
import os
import socket
import threading

from kungfu_tf.native import libraries

SUM = 0
FLOAT32 = 10


class AllReduce:
    """An all-reduce in place of `count` float32, each 1.0, that has been started.

    `shared`: in memory that the host's peers share, which is not given back.
    """

    def __init__(self, name: str, count: int, timeout: float = 180, shared: bool = False) -> None:
        if shared:
            allocate = libraries.core().kungfu_shared_allocate
            allocate.restype, allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
            self.values = (ctypes.c_float * count).from_address(allocate(4 * count))
            self.values[:16] = [1.0] * 16
        else:
            self.values = (ctypes.c_float * count)(*([1.0] * min(count, 16)))
        address = ctypes.addressof(self.values)
        self._span = libraries.Span(address, address, count)
        self._options = libraries.Options(
            name=name.encode(), dtype=FLOAT32, op=SUM, timeout=timeout
        )
        self._done = libraries.Done(self._end)
        self.start()

    def start(self) -> "AllReduce":
        """Starts it once more, with what the one before has left. REQUIRES: that has ended."""
        self._ended = threading.Event()
        self._code, self._message = 0, ""
        spans = (libraries.Span * 1)(self._span)
        libraries.core().kungfu_all_reduce(spans, 1, ctypes.byref(self._options), self._done, None)
        return self

    def _end(self, _: object, code: int, message: bytes) -> None:
        self._code, self._message = code, message.decode()
        self._ended.set()

    def wait(self) -> list[float]:
        """The first values. Raises the error of the core."""
        assert self._ended.wait(240), "the all-reduce did not end"
        if self._code:
            from kungfu_tf import errors

            raise errors.from_code(self._code, self._message)
        return list(self.values[:16])


def cut_connections() -> int:
    """Cuts this process' connections with other peers. Returns how many there were."""
    number = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(name))) as connected:
                ends = {connected.getpeername(), connected.getsockname()}
                if ends & {os.environ["KUNGFU_CONTROL"]} or ends == {""}:
                    continue
                connected.shutdown(socket.SHUT_RDWR)
                number += 1
        except OSError:
            continue
    return number


def sent() -> int:
    """Bytes that this peer has sent."""
    return libraries.statistics()["bytes_sent"]
