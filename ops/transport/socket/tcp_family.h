// TCP over IPv4 and IPv6: between any two hosts.

#pragma once

#include "ops/transport/socket/address_family.h"

namespace kungfu {

// Listens on the peer's own address and port. A host that vanishes silently is noticed within about 5 s. A living host
// whose process does not read is left to the deadlines of the peers that wait for it.
class TcpFamily : public AddressFamily {
 public:
  const char* name() const override { return "tcp"; }
  StatusOr<UniqueFd> Listen(const PeerId& self) override;
  void StopListening() override {}
  void Prepare(int fd) override;
  LivenessCheck liveness() const override { return &CheckAcknowledged; }
  StatusOr<UniqueFd> Connect(const PeerId& remote) override;

  // kUnavailable: the other host has acknowledged nothing for 5 s, although it was asked to.
  static Status CheckAcknowledged(int fd);
};

// The system's figures of a connection, as in tcp_info. Times in milliseconds.
struct Acknowledgements {
  unsigned retransmits = 0;  // of the oldest data in flight, none acknowledged
  unsigned probes = 0;       // without an answer: is the host there, does the window open?
  unsigned silence = 0;      // since the last acknowledgement of whatever kind
};
bool IsCutOff(const Acknowledgements& seen);

}  // namespace kungfu
