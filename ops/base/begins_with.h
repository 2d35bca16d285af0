// Whether a string begins with a word: as std::string::compare, for a fraction of its cost.

#pragma once

#include <cstddef>
#include <cstring>
#include <string>

namespace kungfu {

template <size_t kSize>
bool BeginsWith(const std::string& text, const char (&word)[kSize]) {
  return text.size() >= kSize - 1 && std::memcmp(text.data(), word, kSize - 1) == 0;
}

}  // namespace kungfu
