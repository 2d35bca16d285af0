#include "ops/base/copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "ops/base/bytes.h"

namespace kungfu {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kSlowWithin = 64;
constexpr size_t kLeastSlow = 4096;

struct Block {
  char bytes[64];
};

bool IsSlow(const char* to, const char* from, size_t size) {
  const uintptr_t behind = (reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from)) % kPage;
  return size >= kLeastSlow && behind > 0 && behind < kSlowWithin;
}

}  // namespace

void CopyBytes(char* to, const char* from, size_t size) {
  if (IsSlow(to, from, size)) {
    for (; size >= sizeof(Block); size -= sizeof(Block)) {
      Block block;
      std::memcpy(&block, from, sizeof(block));
      std::memcpy(to, &block, sizeof(block));
      to += sizeof(block);
      from += sizeof(block);
    }
  }
  std::memcpy(to, from, size);
}

void CopyPastCaches(char* to, const char* from, size_t size) {
  const size_t skew = reinterpret_cast<uintptr_t>(to) % kLine;
  const size_t head = std::min(size, skew == 0 ? 0 : kLine - skew);
  std::memcpy(to, from, head);
  const size_t lines = (size - head) / kLine;
  CopyLinesPastCaches(to + head, from + head, lines);
  OrderPastCaches();
  const size_t before = head + lines * kLine;
  std::memcpy(to + before, from + before, size - before);
}

}  // namespace kungfu
