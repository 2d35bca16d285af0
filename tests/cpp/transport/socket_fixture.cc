#include "tests/cpp/transport/socket_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "ops/transport/shm/shm_transport.h"
#include "ops/transport/socket/stream_transport.h"
#include "ops/transport/socket/tcp_family.h"
#include "ops/transport/socket/unix_family.h"

namespace kungfu::testing {
namespace {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

Address TcpAddress(const PeerId& peer) {
  Address address;
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

UniqueFd ConnectTo(Address address) {
  UniqueFd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval patience{static_cast<time_t>(kPatience.count()), 0};
  EXPECT_EQ(setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
  EXPECT_EQ(setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)), 0);
  if (connect(fd.get(), address.get(), address.size) != 0) fd.Reset();
  return fd;
}

}  // namespace

void WriteAll(int fd, const std::string& bytes) {
  EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

std::string ReadExactly(int fd, size_t size) {
  std::string bytes(size, '\0');
  const ssize_t got = recv(fd, &bytes[0], size, MSG_WAITALL);
  EXPECT_EQ(got, static_cast<ssize_t>(size));
  return bytes;
}

PeerId TcpFixture::NewPeer() {
  PeerId peer;
  const StatusOr<HostAddress> host = HostAddress::Parse(host_);
  EXPECT_OK(host.status());
  peer.host = *host;
  Address address = TcpAddress(peer);
  UniqueFd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  EXPECT_EQ(setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)), 0);
  EXPECT_EQ(bind(fd.get(), address.get(), address.size), 0);
  EXPECT_EQ(getsockname(fd.get(), address.get(), &address.size), 0);
  // The port lies at the same place in both families.
  peer.port = ntohs(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
  reservations_.push_back(std::move(fd));
  return peer;
}

std::unique_ptr<Transport> TcpFixture::NewTransport(EventLoop* loop, const Credentials& credentials) {
  return std::make_unique<StreamTransport>(loop, std::make_unique<TcpFamily>(), credentials);
}

UniqueFd TcpFixture::ConnectRaw(const PeerId& peer) { return ConnectTo(TcpAddress(peer)); }

UnixFixture::UnixFixture(const char* suffix) : suffix_(suffix) {
  char path[] = "/tmp/kungfu-test-XXXXXX";
  EXPECT_TRUE(mkdtemp(path) != nullptr);
  directory_ = path;
}

UnixFixture::~UnixFixture() {
  // Fails if a transport has left its socket there.
  EXPECT_EQ(rmdir(directory_.c_str()), 0);
}

PeerId UnixFixture::NewPeer() {
  const StatusOr<PeerId> peer = PeerId::Parse("127.0.0.1:" + std::to_string(next_port_++));
  EXPECT_OK(peer.status());
  return *peer;
}

std::unique_ptr<Transport> UnixFixture::NewTransport(EventLoop* loop, const Credentials& credentials) {
  return std::make_unique<StreamTransport>(loop, std::make_unique<UnixFamily>(directory_), credentials);
}

UniqueFd UnixFixture::ConnectRaw(const PeerId& peer) {
  Address address;
  auto* const name = reinterpret_cast<sockaddr_un*>(&address.storage);
  name->sun_family = AF_UNIX;
  std::strncpy(name->sun_path, PathOf(peer).c_str(), sizeof(name->sun_path) - 1);
  address.size = sizeof(*name);
  return ConnectTo(address);
}

std::unique_ptr<Transport> ShmFixture::NewTransport(EventLoop* loop, const Credentials& credentials) {
  return MakeShmTransport(loop, directory(), credentials, /*required=*/false);
}

void ShmFixture::Settle(int fd) {
  WriteAll(fd, "S");
  EXPECT_EQ(ReadExactly(fd, 1), "S");
}

}  // namespace kungfu::testing
