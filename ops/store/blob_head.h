// What a blob is besides its bytes, and travels before them.

#pragma once

#include <cstdint>
#include <cstring>

#include "ops/transport/little_endian.h"

namespace kungfu {

struct BlobHead {
  uint64_t version = 0;   // in a queue: its number; in an outbox: how many were posted into it
  double weight = 0;      // in an outbox: the sum of the weights that were posted with them
  bool replaces = false;  // in an outbox: whether it takes the place of what was collected before, or adds to it
};

// On the wire: version u64, weight f64, replaces u64.
inline constexpr uint64_t kBlobHeadSize = 24;

inline void Encode(const BlobHead& head, char* out) {
  uint64_t bits;
  static_assert(sizeof bits == sizeof head.weight);
  std::memcpy(&bits, &head.weight, sizeof bits);
  PutLittleEndian(out, head.version);
  PutLittleEndian(out + 8, bits);
  PutLittleEndian(out + 16, uint64_t{head.replaces});
}

inline BlobHead DecodeBlobHead(const char* in) {
  BlobHead head;
  const auto bits = GetLittleEndian<uint64_t>(in + 8);
  head.version = GetLittleEndian<uint64_t>(in);
  std::memcpy(&head.weight, &bits, sizeof bits);
  head.replaces = GetLittleEndian<uint64_t>(in + 16) != 0;
  return head;
}

}  // namespace kungfu
