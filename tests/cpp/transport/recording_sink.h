// A sink of each kind that the contract allows, which keeps what it is given and checks how.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "ops/transport/transport.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {

enum class SinkKind {
  kWhole,     // one place for all of it
  kSegments,  // many places of odd sizes
  kLent,      // no place: views, which must keep to the granule
};
inline constexpr SinkKind kSinkKinds[] = {SinkKind::kWhole, SinkKind::kSegments, SinkKind::kLent};

class RecordingSink : public Sink {
 public:
  void Begin(SinkKind kind, size_t size) {
    kind_ = kind;
    filled_ = 0;
    payload_.assign(size, '\0');
  }
  bool full() const { return filled_ == payload_.size(); }
  std::string Take() { return std::move(payload_); }

  MutableBytes Reserve(size_t max) override {
    EXPECT_EQ(max, payload_.size() - filled_);
    if (kind_ == SinkKind::kLent) return {};
    return {&payload_[filled_], kind_ == SinkKind::kWhole ? max : SegmentRest(max)};
  }

  void Commit(size_t size) override {
    EXPECT_NE(kind_, SinkKind::kLent);
    EXPECT_LE(size, kind_ == SinkKind::kWhole ? payload_.size() - filled_ : SegmentRest(payload_.size() - filled_));
    filled_ += size;
  }

  void Consume(ConstBytes view) override {
    EXPECT_EQ(kind_, SinkKind::kLent);
    EXPECT_NE(view.size, 0u);
    EXPECT_EQ(filled_ % kGranule, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(view.data) % kGranule, 0u);
    ASSERT_TRUE(view.size <= payload_.size() - filled_);
    EXPECT_TRUE(view.size % kGranule == 0 || filled_ + view.size == payload_.size());
    std::memcpy(&payload_[filled_], view.data, view.size);
    filled_ += view.size;
  }

 private:
  // The payload is cut at fixed places, small and large: what is left of the segment that comes next.
  size_t SegmentRest(size_t max) const {
    static constexpr size_t kSegments[] = {1, 7, 40000, 3, 16384, 100, 150000, 16};
    size_t end = 0;
    for (size_t i = 0; end <= filled_; ++i) end += kSegments[i % std::size(kSegments)];
    return std::min(max, end - filled_);
  }

  SinkKind kind_ = SinkKind::kWhole;
  std::string payload_;
  size_t filled_ = 0;
};

// Bytes that differ from place to place, and with `seed`. Mostly copied, as sanitizers are slow in loops.
inline std::string Pattern(size_t size, uint32_t seed) {
  constexpr size_t kPeriod = 4093;
  std::string bytes(size, '\0');
  uint32_t state = seed * 2654435761u + 1;
  for (size_t i = 0; i < std::min(size, kPeriod); ++i) {
    state = state * 1664525u + 1013904223u;
    bytes[i] = static_cast<char>(state >> 24);
  }
  for (size_t at = kPeriod; at < size; at += kPeriod) {
    const size_t number = at / kPeriod, length = std::min(kPeriod, size - at);
    std::memcpy(&bytes[at], &bytes[0], length);
    std::memcpy(&bytes[at], &number, std::min(length, sizeof(number)));
  }
  return bytes;
}

}  // namespace kungfu::testing
