#include "ops/base/copy.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

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
#if defined(__SSE2__)
  const size_t skew = reinterpret_cast<uintptr_t>(to) % kLine;
  const size_t head = std::min(size, skew == 0 ? 0 : kLine - skew);
  std::memcpy(to, from, head);
  to += head;
  from += head;
  size -= head;
  for (; size >= kLine; size -= kLine) {
    const auto* const line = reinterpret_cast<const __m128i*>(from);
    const __m128i quarters[] = {_mm_loadu_si128(line), _mm_loadu_si128(line + 1), _mm_loadu_si128(line + 2),
                                _mm_loadu_si128(line + 3)};
    for (size_t i = 0; i < 4; ++i) _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i, quarters[i]);
    to += kLine;
    from += kLine;
  }
  // These stores keep no order of their own.
  _mm_sfence();
#endif
  std::memcpy(to, from, size);
}

}  // namespace kungfu
