// The bytes that this process exchanges with other peers.

#pragma once

#include <array>
#include <cstdint>

#include "ops/transport/transport.h"

namespace kungfu {

// In memory that both peers map, or over a socket.
enum class TrafficWay { kSharedMemory, kUnix, kTcp };
inline constexpr int kNumTrafficWays = 3;

// To and from one peer, over present and past connections, and in shared memory without messages.
struct Traffic {
  struct Bytes {
    uint64_t sent = 0;
    uint64_t received = 0;

    Bytes& operator+=(const Bytes& other);
  };
  std::array<Bytes, kNumTrafficWays> by_way;
  uint64_t messages_sent = 0;  // of operations
  uint64_t payload_sent = 0;   // bytes of those messages, without headers

  const Bytes& by(TrafficWay way) const { return by_way[static_cast<int>(way)]; }
  Bytes& by(TrafficWay way) { return by_way[static_cast<int>(way)]; }
  Bytes sum() const;
  // Adds the bytes of a connection.
  void Add(const Connection& connection);
};

// Over the connections with all peers.
struct RouterTotals {
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  uint64_t refused_frames = 0;
  uint64_t connections = 0;
};

}  // namespace kungfu
