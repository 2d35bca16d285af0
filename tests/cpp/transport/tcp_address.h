// Addresses of TCP sockets, and ports that nobody else can take.

#pragma once

#include <sys/socket.h>

#include "ops/base/unique_fd.h"
#include "ops/plan/peer_id.h"

namespace kungfu::testing {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

SocketAddress TcpAddress(const PeerId& peer);

// Gives `peer` a port of its host, which is this one. It stays bound as long as the result lives, so that no other
// socket of the machine gets it; transports can listen there all the same.
UniqueFd ReservePort(PeerId* peer);

}  // namespace kungfu::testing
