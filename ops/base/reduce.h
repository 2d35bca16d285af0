// Arithmetic on arrays: the only place that knows what is inside a tensor.

#pragma once

#include <cstddef>
#include <vector>

#include "ops/base/dtype.h"

namespace kungfu {

// out[i] = a[i] op b[i]. `out` may be `a` or `b`; other overlaps are not allowed. Mean adds, like sum: see Divide.
// float16 and bfloat16 are added in float32 and rounded to nearest even once per call; integer sums and products
// wrap; min and max propagate NaN.
// REQUIRES: Supports(dtype, op); pointers aligned to the element.
void Reduce(void* out, const void* a, const void* b, size_t count, DType dtype, ReduceOp op);

// data[i] /= divisor, in float32 for the 16-bit types.
// REQUIRES: Supports(dtype, ReduceOp::kMean), divisor > 0.
void Divide(void* data, size_t count, DType dtype, int divisor);

// What the loops are compiled for. Results are the same bits with all of them, so peers may differ in processors.
enum class Instructions { kBaseline, kAvx2 };
// What this processor knows; the last one is used.
std::vector<Instructions> AvailableInstructions();
// For tests and benchmarks. REQUIRES: they are available.
void UseInstructions(Instructions instructions);

}  // namespace kungfu
