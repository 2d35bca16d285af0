#include "tests/cpp/transport/socket_fixture.h"

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
#include "tests/cpp/transport/tcp_address.h"

namespace kungfu::testing {
namespace {

UniqueFd ConnectTo(SocketAddress address) {
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
  reservations_.push_back(ReservePort(&peer));
  return peer;
}

std::unique_ptr<Transport> TcpFixture::NewTransport(EventLoop* loop, const Credentials& credentials) {
  return std::make_unique<StreamTransport>(loop, std::make_unique<TcpFamily>(), AddressFamilies(), credentials);
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
  return std::make_unique<StreamTransport>(loop, std::make_unique<UnixFamily>(directory_), AddressFamilies(),
                                           credentials);
}

UniqueFd UnixFixture::ConnectRaw(const PeerId& peer) {
  SocketAddress address;
  auto* const name = reinterpret_cast<sockaddr_un*>(&address.storage);
  name->sun_family = AF_UNIX;
  std::strncpy(name->sun_path, PathOf(peer).c_str(), sizeof(name->sun_path) - 1);
  address.size = sizeof(*name);
  return ConnectTo(address);
}

std::unique_ptr<Transport> ShmFixture::NewTransport(EventLoop* loop, const Credentials& credentials) {
  return MakeShmTransport(loop, directory(), AddressFamilies(), credentials, /*required=*/false);
}

void ShmFixture::Settle(int fd) {
  WriteAll(fd, "S");
  EXPECT_EQ(ReadExactly(fd, 1), "S");
}

}  // namespace kungfu::testing
