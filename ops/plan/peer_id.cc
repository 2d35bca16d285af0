#include "ops/plan/peer_id.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace kungfu {
namespace {

// ::ffff:0:0/96, where IPv6 keeps the addresses of IPv4.
constexpr uint8_t kV4Prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

Status NoAddress(const std::string& text) {
  return InvalidArgumentError("'" + text + "' is no IP address: expected one like 10.0.0.1 or [fd00::1]");
}

Status NoPeer(const std::string& text, const std::string& why) {
  return InvalidArgumentError("'" + text + "' is no peer: " + why);
}

}  // namespace

StatusOr<HostAddress> HostAddress::Parse(const std::string& text) {
  std::array<uint8_t, 16> bytes{};
  if (inet_pton(AF_INET, text.c_str(), bytes.data() + sizeof(kV4Prefix)) == 1) {
    std::copy(std::begin(kV4Prefix), std::end(kV4Prefix), bytes.begin());
    return HostAddress(bytes);
  }
  const bool bracketed = text.size() >= 2 && text.front() == '[' && text.back() == ']';
  const std::string bare = bracketed ? text.substr(1, text.size() - 2) : text;
  if (inet_pton(AF_INET6, bare.c_str(), bytes.data()) != 1) return NoAddress(text);
  return HostAddress(bytes);
}

bool HostAddress::is_v4() const { return std::equal(std::begin(kV4Prefix), std::end(kV4Prefix), bytes_.begin()); }

std::string HostAddress::ToString() const {
  char text[INET6_ADDRSTRLEN];
  if (is_v4()) {
    inet_ntop(AF_INET, bytes_.data() + sizeof(kV4Prefix), text, sizeof(text));
  } else {
    inet_ntop(AF_INET6, bytes_.data(), text, sizeof(text));
  }
  return text;
}

StatusOr<PeerId> PeerId::Parse(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return NoPeer(text, "expected address:port");
  const std::string host_text = text.substr(0, colon);
  // Without brackets, the last group of an IPv6 address would be taken for the port.
  if (host_text.find(':') != std::string::npos && host_text.front() != '[') {
    return NoPeer(text, "an IPv6 address needs brackets, as in [::1]:10000");
  }
  StatusOr<HostAddress> host = HostAddress::Parse(host_text);
  if (!host.ok()) return host.status();

  uint16_t port = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, port);
  if (error != std::errc() || stop != end || port == 0) return NoPeer(text, "expected a port from 1 to 65535");
  return PeerId{*host, port};
}

std::string PeerId::ToString() const {
  const std::string address = host.ToString();
  return (host.is_v4() ? address : "[" + address + "]") + ":" + std::to_string(port);
}

size_t PeerIdHash::operator()(const PeerId& id) const {
  uint64_t words[2];
  std::memcpy(words, id.host.bytes().data(), sizeof(words));
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;
  uint64_t hash = words[0];
  hash = (hash ^ (hash >> 29)) * kGolden + words[1];
  hash = (hash ^ (hash >> 29)) * kGolden + id.port;
  return static_cast<size_t>((hash ^ (hash >> 29)) * kGolden);
}

}  // namespace kungfu
