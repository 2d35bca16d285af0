// The 16-bit floating types as bits. Every step is arithmetic on integers or on normal floats, without a branch, so
// that a loop over it becomes vector code. A thread that flushes denormals (TensorFlow's do) computes the same bits.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#define KF_INLINE inline __attribute__((always_inline))

namespace kungfu {

struct Float16 {
  uint16_t bits;
};

struct BFloat16 {
  uint16_t bits;
};

KF_INLINE float FloatOfBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

KF_INLINE uint32_t BitsOfFloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// `a` if `condition` else `b`, both computed: a conditional expression may become a branch.
KF_INLINE uint32_t Select(bool condition, uint32_t a, uint32_t b) {
  const uint32_t mask = 0u - static_cast<uint32_t>(condition);
  return (a & mask) | (b & ~mask);
}

KF_INLINE float Widen(BFloat16 x) { return FloatOfBits(uint32_t{x.bits} << 16); }

KF_INLINE float Widen(Float16 x) {
  constexpr uint32_t kRebias = (127 - 15) << 23;
  constexpr uint32_t kSmallestNormal = (127 - 14) << 23;
  const uint32_t sign = uint32_t{x.bits & 0x8000u} << 16;
  const uint32_t exponent = x.bits & 0x7c00u;
  const uint32_t shifted = uint32_t{x.bits & 0x7fffu} << 13;
  const uint32_t normal = shifted + kRebias;
  const uint32_t special = normal + kRebias;  // infinity and NaN: the exponent becomes 255
  // A denormal is its mantissa times 2^-24: put it below a leading one, then take the one away.
  const uint32_t denormal = BitsOfFloat(FloatOfBits(shifted + kSmallestNormal) - FloatOfBits(kSmallestNormal));
  const uint32_t magnitude = Select(exponent == 0, denormal, Select(exponent == 0x7c00, special, normal));
  return FloatOfBits(sign | magnitude);
}

// `x` rounded to the nearest T, to even at a tie; NaN stays NaN.
template <typename T>
T Narrow(float x);

template <>
KF_INLINE BFloat16 Narrow<BFloat16>(float x) {
  const uint32_t bits = BitsOfFloat(x);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const uint32_t quiet = bits >> 16 | 0x40;
  const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  return {static_cast<uint16_t>(Select(is_nan, quiet, rounded))};
}

template <>
KF_INLINE Float16 Narrow<Float16>(float x) {
  constexpr uint32_t kRebias = (127 - 15) << 23;
  constexpr uint32_t kSmallestNormal = (127 - 14) << 23;
  constexpr uint32_t kTooLarge = (127 + 16) << 23;
  // A float whose last bit is worth 2^-24, as that of a denormal Float16: adding it rounds there.
  constexpr uint32_t kRounder = (127 - 1) << 23;
  const uint32_t bits = BitsOfFloat(x);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  const uint32_t normal = (magnitude - kRebias + 0xfff + (magnitude >> 13 & 1)) >> 13;
  const uint32_t denormal = BitsOfFloat(FloatOfBits(magnitude) + FloatOfBits(kRounder)) - kRounder;
  const uint32_t quiet = 0x7e00 | (magnitude >> 13 & 0x3ff);
  const uint32_t special = Select(magnitude > 0x7f800000, quiet, 0x7c00);
  const uint32_t result =
      Select(magnitude < kSmallestNormal, denormal, Select(magnitude >= kTooLarge, special, normal));
  return {static_cast<uint16_t>(sign | result)};
}

// The same of whole blocks, with the processor's own conversion, or wider vectors, where it has them.
void Widen(const Float16* in, float* out, size_t count);
void Narrow(const float* in, Float16* out, size_t count);
void Narrow(const float* in, BFloat16* out, size_t count);

}  // namespace kungfu
