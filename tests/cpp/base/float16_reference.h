// The 16-bit floating types by their definition, through double: slow, and independent of ops/base/float16.h.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace kungfu::testing {

struct Format16 {
  int mantissa_bits;
  int least_exponent;  // of a normal number
  uint16_t infinity;
};
inline constexpr Format16 kFloat16Format = {10, -14, 0x7c00};
inline constexpr Format16 kBFloat16Format = {7, -126, 0x7f80};

inline bool IsNan16(const Format16& format, uint16_t bits) { return (bits & 0x7fff) > format.infinity; }

inline double Decode16(const Format16& format, uint16_t bits) {
  const int magnitude = bits & 0x7fff;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (magnitude > format.infinity) return NAN;
  if (magnitude == format.infinity) return sign * INFINITY;
  const int leading_one = 1 << format.mantissa_bits;
  const int exponent = magnitude >> format.mantissa_bits;
  const int mantissa = magnitude & (leading_one - 1);
  const int lowest = format.least_exponent - format.mantissa_bits;
  if (exponent == 0) return sign * std::ldexp(mantissa, lowest);
  return sign * std::ldexp(leading_one + mantissa, lowest + exponent - 1);
}

// The nearest, to even at a tie.
inline uint16_t Encode16(const Format16& format, double value) {
  if (std::isnan(value)) return format.infinity | 1 << (format.mantissa_bits - 1);
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  if (std::isinf(magnitude)) return sign | format.infinity;
  const int exponent = std::max(std::ilogb(magnitude), format.least_exponent);
  const double units = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  // A carry out of the mantissa moves into the exponent, and out of the last exponent to infinity.
  const double bits = std::ldexp(exponent - format.least_exponent, format.mantissa_bits) + units;
  return sign | static_cast<uint16_t>(std::min<double>(bits, format.infinity));
}

}  // namespace kungfu::testing
