// The bound on what a sender may leave with a receiver that has not asked for it.
//
// Both ends of a connection count. Every kData costs its bytes and every kAnnounce its header, from the moment it is
// sent until the receiver has used it and says so (kCredit). The sender never goes beyond kParkLimit; a receiver that
// sees it exceeded ends the connection.

#pragma once

#include <cstddef>
#include <cstdint>

namespace kungfu {

inline constexpr uint64_t kParkLimit = 16 << 20;
// Above this, data is announced instead of sent: the rest is kept for announcements.
inline constexpr uint64_t kParkEagerLimit = 12 << 20;
// Credit is returned in portions, not for every message.
inline constexpr uint64_t kCreditPortion = 1 << 20;

// The room of a message of `payload_size` bytes (0 for an announcement) at the receiver.
inline uint64_t ParkCost(size_t name_size, uint64_t payload_size) { return 256 + name_size + payload_size; }

}  // namespace kungfu
