"""Reads the pipes of the peers, as fast as the output takes their lines."""

import selectors
from collections.abc import Callable
from typing import IO

from kungfu_tf.launcher.output.job_output import Output
from kungfu_tf.launcher.output.sink import Sink
from kungfu_tf.launcher.processes.peer_process import PeerProcess

_READ_SIZE = 1 << 16


class Pipes:
    """The open pipes of all peers. Used by the event loop's thread only."""

    def __init__(self, output: Output, selector: selectors.BaseSelector) -> None:
        self._output = output
        self._selector = selector
        self._open: dict[IO[bytes], tuple[int, str]] = {}
        self._congested: list[Sink] = []

    def add(self, process: PeerProcess) -> None:
        for stream, pipe in process.pipes.items():
            self._open[pipe] = (process.peer.rank, stream)
            self._read_or_wait(pipe)

    def drain(self) -> None:
        """Reads the rest, and ends every stream."""
        for pipe in list(self._open):
            while pipe in self._open:
                if not self._read(pipe):
                    self._end(pipe)

    def balance(self) -> None:
        """Waits for slow readers, and stops reading peers whose lines would pile up."""
        sinks = self._output.sinks
        registered = self._selector.get_map()
        for sink in sinks:
            if sink.waiting and sink.fileno() not in registered:
                self._selector.register(sink, selectors.EVENT_WRITE, _pump(sink))
            elif not sink.waiting and sink.fileno() in registered:
                self._selector.unregister(sink)
        congested = [sink for sink in sinks if sink.congested]
        if congested != self._congested:
            self._congested = congested
            for pipe in self._open:
                self._read_or_wait(pipe)

    def _read_or_wait(self, pipe: IO[bytes]) -> None:
        """Reads a pipe, unless its lines would have to wait for a reader that is far behind."""
        reads = pipe in self._selector.get_map()
        if any(sink in self._congested for sink in self._output.sinks_of(*self._open[pipe])):
            if reads:
                self._selector.unregister(pipe)
        elif not reads:
            self._selector.register(pipe, selectors.EVENT_READ, lambda _events: self._read(pipe))

    def _read(self, pipe: IO[bytes]) -> bool:
        """Reads once. Returns False if there is nothing for now."""
        data = pipe.read(_READ_SIZE)
        if data is None:
            return False
        if data:
            self._output.feed(*self._open[pipe], data)
        else:
            self._end(pipe)
        return True

    def _end(self, pipe: IO[bytes]) -> None:
        self._output.feed(*self._open.pop(pipe), b"")
        if pipe in self._selector.get_map():
            self._selector.unregister(pipe)
        pipe.close()


def _pump(sink: Sink) -> Callable[[int], None]:
    return lambda _events: sink.pump()
