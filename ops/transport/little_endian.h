// Integers as they cross processes: little-endian on every machine.

#pragma once

#include <cstddef>
#include <type_traits>

namespace kungfu {

template <typename T>
void PutLittleEndian(char* out, T value) {
  const auto bits = static_cast<std::make_unsigned_t<T>>(value);
  for (size_t i = 0; i < sizeof(T); ++i) out[i] = static_cast<char>(bits >> (8 * i));
}

template <typename T>
T GetLittleEndian(const char* in) {
  std::make_unsigned_t<T> bits = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    bits |= static_cast<std::make_unsigned_t<T>>(static_cast<unsigned char>(in[i])) << (8 * i);
  }
  return static_cast<T>(bits);
}

}  // namespace kungfu
