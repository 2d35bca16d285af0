// The sum of the squares of an array's elements.

#pragma once

#include <cstddef>

#include "ops/base/dtype.h"

namespace kungfu {

// Of a complex number that of both parts. Summed in double, in an order that depends on `count` alone: the bits are the
// same with all instructions of the processor, and on all peers. REQUIRES: a floating or complex type.
double SquaredNorm(const void* data, size_t count, DType dtype);

}  // namespace kungfu
