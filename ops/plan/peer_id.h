// The identity of a peer: the address and port that it has for its whole life.

#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "ops/base/status.h"

namespace kungfu {

// An IPv4 or IPv6 address; IPv4 is kept mapped (::ffff:a.b.c.d), so that equal hosts compare equal.
class HostAddress {
 public:
  HostAddress() = default;
  // "127.0.0.1", "::1", "[::1]". Numeric only: names are resolved by the launcher.
  static StatusOr<HostAddress> Parse(const std::string& text);

  const std::array<uint8_t, 16>& bytes() const { return bytes_; }
  explicit HostAddress(const std::array<uint8_t, 16>& bytes) : bytes_(bytes) {}
  bool is_v4() const;
  std::string ToString() const;  // "127.0.0.1", "::1"

  friend bool operator==(const HostAddress& a, const HostAddress& b) { return a.bytes_ == b.bytes_; }
  friend bool operator!=(const HostAddress& a, const HostAddress& b) { return a.bytes_ != b.bytes_; }
  friend bool operator<(const HostAddress& a, const HostAddress& b) { return a.bytes_ < b.bytes_; }

 private:
  std::array<uint8_t, 16> bytes_{};
};

struct PeerId {
  HostAddress host;
  uint16_t port = 0;

  // "127.0.0.1:10000", "[::1]:10000"
  static StatusOr<PeerId> Parse(const std::string& text);
  std::string ToString() const;

  friend bool operator==(const PeerId& a, const PeerId& b) { return a.host == b.host && a.port == b.port; }
  friend bool operator!=(const PeerId& a, const PeerId& b) { return !(a == b); }
  friend bool operator<(const PeerId& a, const PeerId& b) {
    return a.host != b.host ? a.host < b.host : a.port < b.port;
  }
};

struct PeerIdHash {
  size_t operator()(const PeerId& id) const;
};

}  // namespace kungfu
