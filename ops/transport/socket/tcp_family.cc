#include "ops/transport/socket/tcp_family.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "ops/base/docs_link.h"
#include "ops/base/logging.h"

namespace kungfu {
namespace {

// A host that is gone must be noticed soon; a process that is alive but stopped (a debugger, a long page-in) must not
// be cut off: its host acknowledges for it. Linux has these ways to find out:
//
// - Keepalive counts probes without an answer, on a connection with nothing in flight: 4 s. TCP_USER_TIMEOUT would
//   replace the count.
// - Data in flight are sent again and again, for a quarter of an hour, unless TCP_USER_TIMEOUT ends it. But that also
//   counts the time for which the other process does not read and its window is closed, although its host answers
//   every probe: at 5 s it ends a connection that works.
//
// So the option is not set, and CheckAcknowledged decides: the other host is gone if it has acknowledged nothing for 5
// s and either data were sent again in vain or several probes of a closed window had no answer. (One may be lost; and
// behind a window that has been closed for long they come so seldom that a silence alone says nothing. Peers that wait
// for that process give it up after KUNGFU_SILENCE_TIMEOUT.) The system keeps these figures, so they are right also
// after this process was stopped itself.
constexpr int kKeepaliveSeconds = 1, kKeepaliveProbes = 3;
constexpr unsigned kLongestSilenceMs = 5000;

struct SocketAddress {
  union {
    sockaddr base;
    sockaddr_in v4;
    sockaddr_in6 v6;
  };
  socklen_t size;

  explicit SocketAddress(const PeerId& peer) {
    std::memset(&v6, 0, sizeof(v6));
    const auto& bytes = peer.host.bytes();
    if (peer.host.is_v4()) {
      v4.sin_family = AF_INET;
      v4.sin_port = htons(peer.port);
      std::memcpy(&v4.sin_addr, &bytes[12], sizeof(v4.sin_addr));
      size = sizeof(v4);
    } else {
      v6.sin6_family = AF_INET6;
      v6.sin6_port = htons(peer.port);
      std::memcpy(&v6.sin6_addr, bytes.data(), sizeof(v6.sin6_addr));
      size = sizeof(v6);
    }
  }
};

void SetOption(int fd, int level, int option, int value) {
  if (setsockopt(fd, level, option, &value, sizeof(value)) != 0) {
    KF_LOG(WARNING) << "tcp: socket option " << option << ": " << std::strerror(errno);
  }
}

UniqueFd NewSocket(const SocketAddress& address) {
  return UniqueFd(socket(address.base.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

// A port without a listener may be given to the very socket that tries to reach it: then it connects to itself.
bool MeetsItself(int fd, const SocketAddress& remote) {
  SocketAddress local = remote;
  return getsockname(fd, &local.base, &local.size) == 0 && std::memcmp(&local.v6, &remote.v6, remote.size) == 0;
}

std::string Remedy(int error) {
  switch (error) {
    case EADDRINUSE:
      return Linked("address-in-use",
                    "; another process has this port: end it, or choose other ports (kungfu-run -port-range)");
    case EADDRNOTAVAIL:
      return "; no interface of this host has this address (kungfu-run -H, -self, -nic)";
    case EACCES:
      return "; ports below 1024 are reserved (kungfu-run -port-range)";
    default:
      return "";
  }
}

}  // namespace

StatusOr<UniqueFd> TcpFamily::Listen(const PeerId& self) {
  const SocketAddress address(self);
  UniqueFd fd = NewSocket(address);
  if (fd.get() >= 0) {
    SetOption(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (bind(fd.get(), &address.base, address.size) == 0 && listen(fd.get(), SOMAXCONN) == 0) return fd;
  }
  const int error = errno;
  const Status status = ErrnoError(error, "tcp: cannot listen on " + self.ToString());
  return Status(status.code(), status.message() + Remedy(error));
}

// The sizes of its buffers are left to the system, which fits them to the link. To set them would end that, and allow
// no more than net.core.wmem_max, mostly less than a fast link needs.
void TcpFamily::Prepare(int fd) {
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepaliveSeconds);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepaliveSeconds);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepaliveProbes);
}

bool IsCutOff(const Acknowledgements& seen) {
  const bool asked_in_vain = seen.retransmits > 0 || seen.probes >= kKeepaliveProbes;
  return asked_in_vain && seen.silence >= kLongestSilenceMs;
}

Status TcpFamily::CheckAcknowledged(int fd) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return OkStatus();
  if (!IsCutOff({info.tcpi_retransmits, info.tcpi_probes, info.tcpi_last_ack_recv})) return OkStatus();
  return UnavailableError("the other host has acknowledged nothing for " +
                          std::to_string(info.tcpi_last_ack_recv / 1000) + " s");
}

StatusOr<UniqueFd> TcpFamily::Connect(const PeerId& remote) {
  const SocketAddress address(remote);
  UniqueFd fd = NewSocket(address);
  if (fd.get() < 0) return UnavailableError(std::strerror(errno));
  Prepare(fd.get());
  if (connect(fd.get(), &address.base, address.size) != 0 && errno != EINPROGRESS) {
    return UnavailableError(std::strerror(errno));
  }
  if (MeetsItself(fd.get(), address)) {
    const linger abort{1, 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
    return UnavailableError(std::strerror(ECONNREFUSED));
  }
  return fd;
}

}  // namespace kungfu
