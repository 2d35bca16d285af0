"""The runner that leads, on the first host at first, and the others, over TCP.

After the handshake (links/handshake.py): UTF-8 lines that end in a newline and have at most 64 KiB
before it. A <peer> is its KUNGFU_SELF, a <number> stands for a peer of the other side's host.

  other -> leader  alive                                 every second, and in answer to this line
                   started <number> <peer>               a newcomer has a name
                   ready <number>                        it asks to be taken in
                   entered <number> <version>            a peer has gone over to a membership
                   broken <number> <version>             a connection of it has broken
                   propose <number> [<size>]             it asks for another number of peers
                   notice <number>                       it has got SIGTERM: may it leave?
                   leave <number>                        it leaves between two steps
                   ended <number> <code> <stopped>       its process has ended; stopped: 0 or 1
                   warned <signal> <times>               it has got a signal for all peers
                   end <signal> <code>                   all shall be stopped
                   heard <version> <peers>               to another leader, after all ends: the
                                                         newest list that it has; "-": none
  leader -> other  alive                                 every second
                   start <number> <version>              start a newcomer
                   dismiss <number> | forgive <number>   stop it | its end is no failure
                   publish <version> <since> <peers> <numbers> [<text>]
                                                         tell them who takes part (control.py); with
                                                         a text they go on without others, and why
                   renew <version> <numbers>             tell them to make connections anew
                   proposed <number>                     the answer to the oldest question
                   refused <number> <text>
                   failed <peer> <text> | left <peer>    tell all: it has failed, or finished
                   warn <signal>                         send it to all
                   end <signal> <code>                   stop all
                   over <code> <again> <failure>         nothing of the job lives; it is started
                                                         anew with so many peers, 0: it is not;
                                                         failure: because of one, 0 or 1

The sender of any other line loses its connection.
"""

import dataclasses
import selectors
import socket
import struct

from kungfu_tf.links.credentials import Credentials

HANDSHAKE_DEADLINE = 5.0
COMING_DEADLINE = 300.0
SILENT = 60.0  # seconds after which a runner is given up
BEAT = 1.0  # seconds between two lines that say that a runner lives

QUIET = 2.5  # seconds without a line, after which a cut has held up the peers, too

_UNACKNOWLEDGED = 5000  # milliseconds
# The beginning of tcp_info in linux/tcp.h: retransmits, probes, and last_ack_recv in milliseconds.
_INFO = struct.Struct("=2xBB52xI")
_LINEAR_TIMEOUTS = 16  # TCP_THIN_LINEAR_TIMEOUTS of Linux


@dataclasses.dataclass(frozen=True)
class Link:
    """How the runners of a job reach each other.

    Attributes:
        credentials: The credentials that they prove to each other.
        port: The port on which the runner of the first host listens.
        selector: The selector of this runner's event loop.
    """

    credentials: Credentials
    port: int
    selector: selectors.BaseSelector


def is_gone(connected: socket.socket) -> bool:
    """Whether the other host has acknowledged nothing for 5 s, although it was asked again.

    TCP_USER_TIMEOUT does not tell: where this host has no way to the other for a moment, it ends
    the connection at once.
    """
    info = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
    sent_again, probes, silent = _INFO.unpack(info)
    return sent_again + probes > 0 and silent > _UNACKNOWLEDGED


def keep_alive(connected: socket.socket) -> None:
    """Lets the kernel notice within some seconds that the other host is gone, if nothing is sent.

    Whatever is sent is sent again until is_gone.
    """
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    # After a short cut the next attempt must not be far: it comes at intervals that grow later.
    connected.setsockopt(socket.IPPROTO_TCP, _LINEAR_TIMEOUTS, 1)
