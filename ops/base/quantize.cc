#include "ops/base/quantize.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "ops/base/float16.h"
#include "ops/base/instructions.h"

namespace kungfu {
namespace {

constexpr uint32_t kInfinityBits = 0x7f800000;

KF_INLINE uint32_t Mixed(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6b;
  x = (x ^ (x >> 13)) * 0xc2b2ae35;
  return x ^ (x >> 16);
}

// Of elements that follow one another.
struct Noise {
  uint32_t first;  // number of an element
  uint32_t lower, upper;

  KF_INLINE float Of(size_t i) const {
    const uint32_t number = first + static_cast<uint32_t>(i);
    const uint32_t x = Mixed(Mixed(number * 0x9e3779b9 + lower) ^ upper);
    return static_cast<float>(static_cast<int32_t>(x >> 8)) * (1.0f / (1 << 24));
  }
};

// floor(x / scale + u), within the bounds. A conversion cuts off towards zero, so it is one too many below.
KF_INLINE int Level(float x, float scale, float noise, int most) {
  const float y = x / scale + noise;
  const int cut = static_cast<int>(y);
  const int level = cut - (static_cast<float>(cut) > y ? 1 : 0);
  return std::min(std::max(level, -most), most);
}

// Of numbers without a sign, the order of the bits is theirs; infinity and NaN come last.
KF_INLINE uint32_t LargestBits(const float* in, size_t count) {
  int32_t largest = 0;
  for (size_t i = 0; i < count; ++i) {
    largest = std::max(largest, static_cast<int32_t>(BitsOfFloat(in[i]) & 0x7fffffff));
  }
  return static_cast<uint32_t>(largest);
}

KF_INLINE void EncodeBlock(uint8_t* out, const float* in, const Blocks& blocks, const Noise& noise) {
  const int most = blocks.Most();
  const size_t bytes = blocks.Bytes() - sizeof(float);
  const uint32_t largest = LargestBits(in, blocks.elements);
  const bool is_finite = largest < kInfinityBits;
  const float scale =
      is_finite ? FloatOfBits(largest) * (1.0f / static_cast<float>(most)) : std::numeric_limits<float>::quiet_NaN();
  std::memcpy(out + bytes, &scale, sizeof(scale));
  if (!(scale > 0)) {
    std::memset(out, 0, bytes);
  } else if (blocks.bits == 8) {
    for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<uint8_t>(Level(in[i], scale, noise.Of(i), most));
  } else {
    for (size_t i = 0; i < bytes; ++i) {
      const auto low = static_cast<unsigned>(Level(in[i], scale, noise.Of(i), most));
      const auto high = static_cast<unsigned>(Level(in[bytes + i], scale, noise.Of(bytes + i), most));
      out[i] = static_cast<uint8_t>((low & 15u) | (high << 4));
    }
  }
}

KF_INLINE void Encode(uint8_t* out, const float* in, size_t size, const Blocks& blocks, uint64_t seed) {
  Noise noise = {0, static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  const size_t whole = size / blocks.elements;
  for (size_t row = 0; row < whole; ++row) {
    noise.first = static_cast<uint32_t>(row * blocks.elements);
    EncodeBlock(out + row * blocks.Bytes(), in + row * blocks.elements, blocks, noise);
  }
  if (whole == blocks.Count(size)) return;
  std::vector<float> last(blocks.elements);
  std::copy(in + whole * blocks.elements, in + size, last.begin());
  noise.first = static_cast<uint32_t>(whole * blocks.elements);
  EncodeBlock(out + whole * blocks.Bytes(), last.data(), blocks, noise);
}

// Adds a block to `sum`, or puts it there.
template <bool kAdds>
KF_INLINE void DecodeBlock(float* sum, const uint8_t* in, const Blocks& blocks) {
  const size_t bytes = blocks.Bytes() - sizeof(float);
  float scale;
  std::memcpy(&scale, in + bytes, sizeof(scale));
  const auto put = [&](size_t i, int level) {
    const float x = static_cast<float>(level) * scale;
    sum[i] = kAdds ? sum[i] + x : x;
  };
  if (blocks.bits == 8) {
    for (size_t i = 0; i < bytes; ++i) put(i, static_cast<int8_t>(in[i]));
  } else {
    for (size_t i = 0; i < bytes; ++i) put(i, static_cast<int8_t>(in[i] << 4) >> 4);
    for (size_t i = 0; i < bytes; ++i) put(bytes + i, static_cast<int8_t>(in[i]) >> 4);
  }
}

KF_INLINE void Decode(float* out, const uint8_t* in, size_t parts, size_t rows, const Blocks& blocks) {
  const float divisor = static_cast<float>(parts);
  for (size_t row = 0; row < rows; ++row) {
    float* const mean = out + row * blocks.elements;
    DecodeBlock<false>(mean, in + row * blocks.Bytes(), blocks);
    for (size_t part = 1; part < parts; ++part) {
      DecodeBlock<true>(mean, in + (part * rows + row) * blocks.Bytes(), blocks);
    }
    if (parts == 1) continue;
    for (size_t i = 0; i < blocks.elements; ++i) mean[i] /= divisor;
  }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void EncodeWithAvx2(uint8_t* out, const float* in, size_t size, const Blocks& blocks,
                                                    uint64_t seed) {
  Encode(out, in, size, blocks, seed);
}

__attribute__((target("avx2"))) void DecodeWithAvx2(float* out, const uint8_t* in, size_t parts, size_t rows,
                                                    const Blocks& blocks) {
  Decode(out, in, parts, rows, blocks);
}
#endif

}  // namespace

void Quantize(uint8_t* out, const float* in, size_t size, const Blocks& blocks, uint64_t seed) {
#if defined(__x86_64__)
  if (UsedInstructions() != Instructions::kBaseline) return EncodeWithAvx2(out, in, size, blocks, seed);
#endif
  Encode(out, in, size, blocks, seed);
}

void Dequantize(float* out, const uint8_t* in, size_t parts, size_t rows, const Blocks& blocks) {
#if defined(__x86_64__)
  if (UsedInstructions() != Instructions::kBaseline) return DecodeWithAvx2(out, in, parts, rows, blocks);
#endif
  Decode(out, in, parts, rows, blocks);
}

}  // namespace kungfu
