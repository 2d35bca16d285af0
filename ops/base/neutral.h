// The element that changes nothing in a reduction: what a peer without work contributes.

#pragma once

#include <cstddef>

#include "ops/base/dtype.h"

namespace kungfu {

// out[i] = the neutral element: 0 of sums and means, 1 of products, the largest of minima (infinity, true), the
// smallest of maxima. REQUIRES: Supports(dtype, op); `out` aligned to the element.
void FillNeutral(void* out, size_t count, DType dtype, ReduceOp op);

}  // namespace kungfu
