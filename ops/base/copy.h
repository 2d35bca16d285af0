// Copies of bytes, wherever they lie.

#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <cstddef>
#include <cstring>

#include "ops/base/bytes.h"

namespace kungfu {

// As memcpy, which can take fourteen times as long on AMD's Zen 3 and 4 with glibc before 2.39. For 4 to 512 KiB it
// uses an instruction that is slow if `to` lies a few bytes behind `from` within a page (glibc's bug 30994).
void CopyBytes(char* to, const char* from, size_t size);

// As memcpy, with stores past the caches where the processor has them. The data go to memory, and no other core has to
// give up its copy of a line first. Visible to a thread that sees a later store with release order.
void CopyPastCaches(char* to, const char* from, size_t size);

// The steps of such a copy: so many lines, to a multiple of 16 bytes, and the order with later stores.
inline void CopyLinesPastCaches(char* to, const char* from, size_t lines) {
#if defined(__SSE2__)
  for (; lines > 0; --lines) {
    const auto* const line = reinterpret_cast<const __m128i*>(from);
    const __m128i quarters[] = {_mm_loadu_si128(line), _mm_loadu_si128(line + 1), _mm_loadu_si128(line + 2),
                                _mm_loadu_si128(line + 3)};
    for (size_t i = 0; i < 4; ++i) _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i, quarters[i]);
    to += kLine;
    from += kLine;
  }
#else
  std::memcpy(to, from, lines * kLine);
#endif
}
inline void OrderPastCaches() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

using CopyFunction = void (*)(char* to, const char* from, size_t size);

}  // namespace kungfu
