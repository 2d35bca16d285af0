// The sum of the squares of an array's elements.

#pragma once

#include <cstddef>

#include "ops/base/dtype.h"

namespace kungfu {

// The squared norm of an array that comes piece by piece. Both parts of a complex number count. The sum is in double,
// in an order that depends only on the elements' places in the whole array. So the bits are the same however the array
// is cut, with all instruction sets, and on all peers.
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

// The squared norm of an array in one piece. REQUIRES: a floating or complex type.
double SquaredNorm(const void* data, size_t count, DType dtype);

}  // namespace kungfu
