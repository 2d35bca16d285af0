// How a range of elements is cut into consecutive parts.

#pragma once

#include <cstdint>

#include "ops/base/short_list.h"

namespace kungfu {

struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t size() const { return end - begin; }
};

// Part `index` of `total` cut into `parts` as even as possible: the first total % parts are one longer
// (as numpy.array_split).
Range EvenPart(uint64_t total, int parts, int index);

// The chunks of a tensor of `count` elements of `element_size` bytes that travels over `lanes` graph pairs, chunk k
// over pair k % lanes. At least one chunk, empty if count is 0. A tensor of less than `min_bytes` is one chunk.
// Otherwise the number of chunks is a multiple of `lanes`, if no chunk gets smaller than `min_bytes`. No chunk is
// larger than `max_bytes`, which wins over all else. Inner boundaries are multiples of 64 bytes. REQUIRES: element_size
// divides 64, lanes > 0, max_bytes >= 64.
uint64_t NumChunks(uint64_t count, uint64_t element_size, int lanes, uint64_t min_bytes, uint64_t max_bytes);
ShortList<Range> Chunks(uint64_t count, uint64_t element_size, int lanes, uint64_t min_bytes, uint64_t max_bytes);
// The movers' value of `min_bytes`.
inline constexpr uint64_t kLeastChunkBytes = 64 << 10;
// The bounds of a job's `max_bytes`: below, the header would be more than a per cent of a chunk.
inline constexpr uint64_t kMinChunkBytes = 4 << 10, kMaxChunkBytes = 1 << 30;

}  // namespace kungfu
