// TCP over IPv4 and IPv6: between any two hosts.

#pragma once

#include "ops/transport/socket/address_family.h"

namespace kungfu {

// Listens on the peer's own address and port. A host that vanishes without a word is noticed within about 5 s.
class TcpFamily : public AddressFamily {
 public:
  const char* name() const override { return "tcp"; }
  StatusOr<UniqueFd> Listen(const PeerId& self) override;
  void StopListening() override {}
  void Prepare(int fd) override;
  StatusOr<UniqueFd> Connect(const PeerId& remote) override;
};

}  // namespace kungfu
