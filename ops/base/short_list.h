// A list that mostly has one or two elements: those lie in it, and only more of them take memory of their own.

#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

namespace kungfu {

// As std::vector. One that was moved from is empty.
template <typename T>
class ShortList {
 public:
  ShortList() = default;
  ShortList(std::initializer_list<T> elements) { Append(elements.begin(), elements.end()); }
  ShortList(const ShortList&) = default;
  ShortList& operator=(const ShortList&) = default;
  ShortList(ShortList&& other) noexcept { *this = std::move(other); }
  ShortList& operator=(ShortList&& other) noexcept {
    std::copy(other.short_, other.short_ + kShort, short_);
    long_ = std::move(other.long_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  ~ShortList() = default;

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return is_short() ? short_ : long_.data(); }
  const T* data() const { return is_short() ? short_ : long_.data(); }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T& back() { return data()[size_ - 1]; }
  const T& back() const { return data()[size_ - 1]; }

  void reserve(size_t size) {
    if (size > kShort) long_.reserve(size);
  }
  void push_back(T element) {
    if (size_ < kShort) {
      short_[size_] = element;
    } else {
      PushLong(element);
    }
    ++size_;
  }
  void clear() {
    long_.clear();
    size_ = 0;
  }
  // Behind those that are here.
  template <typename Iterator>
  void Append(Iterator first, Iterator last) {
    for (; first != last; ++first) push_back(*first);
  }

 private:
  static_assert(std::is_trivially_copyable_v<T>, "elements are copied as bytes");
  static constexpr size_t kShort = 2;
  bool is_short() const { return size_ <= kShort; }
  // Apart, as it is seldom needed.
  __attribute__((noinline)) void PushLong(const T& element) {
    if (size_ == kShort) long_.assign(short_, short_ + kShort);
    long_.push_back(element);
  }

  T short_[kShort] = {};
  std::vector<T> long_;  // all of them, once they are more
  size_t size_ = 0;
};

}  // namespace kungfu
