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

  // to[i] = also[i] = (a[i] + b[i]) / divisor, to the bits of Reduce and Divide, and in the same go the squares of all
  // three: what is in registers need not be read again. `of_a` and `of_to` may be null. `to` and `also` may be `a`,
  // `b`, or the same. REQUIRES: as many elements were added to all of them before; divisor is 1 if `of_to` is null.
  static void AddOfSums(float* to, float* also, const float* a, const float* b, size_t count, int divisor,
                        SquaredSum* of_a, SquaredSum* of_b, SquaredSum* of_to);

 private:
  double lanes_[kLanes] = {};
  size_t next_ = 0;  // the lane of the next element
};

// Of an array in one piece. REQUIRES: a floating or complex type.
double SquaredNorm(const void* data, size_t count, DType dtype);

}  // namespace kungfu
