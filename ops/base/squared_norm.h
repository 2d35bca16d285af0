// The sum of the squares of an array's elements.

#pragma once

#include <cstddef>

#include "ops/base/dtype.h"

namespace kungfu {

// Of an array that comes piece by piece. Of a complex number both parts count. Summed in double, in an order that
// depends on the elements' places in the whole array alone: the bits are the same however it is cut, with all
// instructions of the processor, and on all peers.
class SquaredSum {
 public:
  // REQUIRES: a floating or complex type, the same each time.
  void Add(const void* data, size_t count, DType dtype);
  double Total() const;

  // As many sums as fill the vector registers, each of every kLanes-th element.
  static constexpr size_t kLanes = 16;

 private:
  double lanes_[kLanes] = {};
  size_t next_ = 0;  // the lane of the next element
};

// Of an array in one piece. REQUIRES: a floating or complex type.
double SquaredNorm(const void* data, size_t count, DType dtype);

}  // namespace kungfu
