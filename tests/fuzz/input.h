// What libFuzzer has made up, taken piece by piece; zeros when it is used up.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

namespace kungfu::fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : next_(reinterpret_cast<const char*>(data)), end_(next_ + size) {}

  bool over() const { return next_ == end_; }
  template <typename T>
  T Number() {
    T number{};
    const std::string bytes = Bytes(sizeof(T));
    std::memcpy(&number, bytes.data(), bytes.size());
    return number;
  }
  // At most so many.
  std::string Bytes(size_t most) {
    const size_t size = std::min<size_t>(most, end_ - next_);
    const std::string bytes(next_, size);
    next_ += size;
    return bytes;
  }
  std::string Rest() { return Bytes(end_ - next_); }

 private:
  const char* next_;
  const char* const end_;
};

// Ends the process where something is not as it must be.
inline void Require(bool condition, const char* what) {
  if (condition) return;
  std::cerr << "not so: " << what << std::endl;
  std::abort();
}

}  // namespace kungfu::fuzz
