// Memory that another object owns.

#pragma once

#include <cstddef>

#include "ops/base/short_list.h"

namespace kungfu {

// A cache line: two threads, or two processes, do not write to the same one.
inline constexpr size_t kLine = 64;

struct ConstBytes {
  const char* data = nullptr;
  size_t size = 0;
};

struct MutableBytes {
  char* data = nullptr;
  size_t size = 0;
};

// A message's payload as it lies in memory: sent without being joined first.
using Payload = ShortList<ConstBytes>;

inline size_t TotalSize(const Payload& payload) {
  size_t total = 0;
  for (const ConstBytes& piece : payload) total += piece.size;
  return total;
}

}  // namespace kungfu
