#include "tests/cpp/transport/tcp_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "tests/cpp/testing.h"

namespace kungfu::testing {

SocketAddress TcpAddress(const PeerId& peer) {
  SocketAddress address;
  if (peer.host.is_v4()) {
    auto* const v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(peer.port);
    inet_pton(AF_INET, peer.host.ToString().c_str(), &v4->sin_addr);
    address.size = sizeof(*v4);
  } else {
    auto* const v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(peer.port);
    inet_pton(AF_INET6, peer.host.ToString().c_str(), &v6->sin6_addr);
    address.size = sizeof(*v6);
  }
  return address;
}

UniqueFd ReservePort(PeerId* peer) {
  peer->port = 0;
  SocketAddress address = TcpAddress(*peer);
  UniqueFd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  EXPECT_EQ(setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)), 0);
  EXPECT_EQ(bind(fd.get(), address.get(), address.size), 0);
  EXPECT_EQ(getsockname(fd.get(), address.get(), &address.size), 0);
  // The port lies at the same place in both families.
  peer->port = ntohs(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
  return fd;
}

}  // namespace kungfu::testing
