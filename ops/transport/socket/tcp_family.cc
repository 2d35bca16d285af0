#include "ops/transport/socket/tcp_family.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "ops/base/logging.h"

namespace kungfu {
namespace {

constexpr int kKeepaliveSeconds = 1, kKeepaliveProbes = 3;
// Keepalive probes are not sent while data are in flight: this ends a connection whose data nobody acknowledges.
constexpr int kUserTimeoutMs = 5000;

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

// A port that nobody listens on may be given to the very socket that tries to reach it: then it meets itself.
bool MeetsItself(int fd, const SocketAddress& remote) {
  SocketAddress local = remote;
  return getsockname(fd, &local.base, &local.size) == 0 && std::memcmp(&local.v6, &remote.v6, remote.size) == 0;
}

std::string Remedy(int error) {
  switch (error) {
    case EADDRINUSE:
      return "; another process has this port: end it, or choose other ports (kungfu-run -port-range)";
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

void TcpFamily::Prepare(int fd) {
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepaliveSeconds);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepaliveSeconds);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepaliveProbes);
  SetOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
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
