// All-reduces of tensors that lie in memory that peers share, or elsewhere, against sums made by hand.

#pragma once

#include <cstdint>
#include <vector>

#include "ops/memory/arena.h"
#include "tests/cpp/collective/cluster.h"

namespace kungfu::testing {

enum class Place { kShared, kOrdinary, kUneven };

// Bytes at a place, which end where the arena does at the latest.
class Buffer {
 public:
  // Uneven: somewhere within a page of the arena.
  Buffer(Arena* arena, Place place, const std::vector<char>& bytes);
  ~Buffer();
  Buffer(Buffer&& other);
  Buffer& operator=(Buffer&& other);

  char* data() const { return data_; }
  std::vector<char> bytes() const { return {data_, data_ + size_}; }

 private:
  Arena* arena_;
  size_t size_;
  char* block_ = nullptr;
  char* data_ = nullptr;
  std::vector<char> ordinary_;
};

// Where the tensors of a rank lie.
using PlaceOf = Place (*)(int rank);

// All types, reductions and some counts, in place and not. Returns how many all-reduces that were.
size_t RunPlacedGrid(Cluster* cluster, PlaceOf place_of);

// What a peer has sent to all others.
struct Sent {
  uint64_t messages = 0, bytes = 0;
};

// By each rank, for an all-reduce in place of so many bytes; fails the test if the sum is wrong.
std::vector<Sent> SentForBytes(Cluster* cluster, uint64_t bytes, Place place);

}  // namespace kungfu::testing
