// Fixtures of the socket transports: addresses that nobody else can take, and raw sockets to whoever listens there.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/base/unique_fd.h"
#include "tests/cpp/transport/endpoint.h"

namespace kungfu::testing {

// Over a blocking socket; what does not succeed fails the test.
void WriteAll(int fd, const std::string& bytes);
std::string ReadExactly(int fd, size_t size);

class SocketFixture : public TransportFixture {
 public:
  // A blocking socket that gives up after kPatience, connected to who listens for `peer`.
  virtual UniqueFd ConnectRaw(const PeerId& peer) = 0;
  // What follows the handshake before frames go over the socket.
  virtual void Settle(int fd) {}
};

// Keeps the ports that it gives away bound, so that no other socket of the machine gets them; transports can listen
// there all the same.
class TcpFixture : public SocketFixture {
 public:
  // "127.0.0.1", "::1"
  explicit TcpFixture(const std::string& host) : host_(host) {}

  PeerId NewPeer() override;
  std::unique_ptr<Transport> NewTransport(EventLoop* loop, const Credentials& credentials) override;
  UniqueFd ConnectRaw(const PeerId& peer) override;

 private:
  const std::string host_;
  std::vector<UniqueFd> reservations_;
};

// In a directory of its own.
class UnixFixture : public SocketFixture {
 public:
  explicit UnixFixture(const char* suffix = ".unix");
  ~UnixFixture() override;

  const std::string& directory() const { return directory_; }
  std::string PathOf(const PeerId& peer) const { return directory_ + "/" + std::to_string(peer.port) + suffix_; }

  PeerId NewPeer() override;
  std::unique_ptr<Transport> NewTransport(EventLoop* loop, const Credentials& credentials) override;
  UniqueFd ConnectRaw(const PeerId& peer) override;

 private:
  const char* const suffix_;
  std::string directory_;
  uint16_t next_port_ = 1;
};

// Of the shared-memory transport, whose raw sockets do without shared memory.
class ShmFixture : public UnixFixture {
 public:
  ShmFixture() : UnixFixture(".shm") {}

  std::unique_ptr<Transport> NewTransport(EventLoop* loop, const Credentials& credentials) override;
  void Settle(int fd) override;
};

}  // namespace kungfu::testing
