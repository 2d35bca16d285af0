// Arithmetic on arrays: the only place that knows what is inside a tensor.

#pragma once

#include <cstddef>

#include "ops/base/dtype.h"

namespace kungfu {

// out[i] = a[i] op b[i]. `out` may be `a` or `b`; other overlaps are not allowed. Mean adds, like sum: see Divide.
// float16 and bfloat16 are rounded to nearest even once per call: to combine more than two see accumulate.h. Integer
// sums and products wrap; min and max propagate NaN.
// REQUIRES: Supports(dtype, op); pointers aligned to the element.
void Reduce(void* out, const void* a, const void* b, size_t count, DType dtype, ReduceOp op);

// data[i] /= divisor, in float32 for the 16-bit floating types; integers are cut off toward zero.
// REQUIRES: Supports(dtype, ReduceOp::kMean), divisor > 0.
void Divide(void* data, size_t count, DType dtype, int divisor);

// out[i] = also[i] = (a[i] + b[i]) / divisor: in one go what Reduce, Divide and a copy would do. `out` and `also` may
// be `a` and `b`, in any order; other overlaps are not allowed. REQUIRES: float32 or float64; pointers aligned to the
// element; divisor > 0: 1 for a sum.
void TwofoldSum(void* out, void* also, const void* a, const void* b, size_t count, DType dtype, int divisor);
// The same, with stores past the caches (copy.h). REQUIRES: `out` and `also` are multiples of 16 bytes apart.
void TwofoldSumPastCaches(void* out, void* also, const void* a, const void* b, size_t count, DType dtype, int divisor);
// Whether such a reduction has these loops: sums and means of float32 and float64 have them.
bool HasTwofoldSum(DType dtype, ReduceOp op);

// The steps of a weighted sum: total[i] = weight * in[i], and total[i] += weight * in[i], each product rounded before
// it is added. `total` has the type AccumulatorOf(dtype, ReduceOp::kSum), and the weight is rounded to it; Scale may
// work in place where that is `dtype`. REQUIRES: a floating or complex type; pointers aligned to the element.
void Scale(void* total, const void* in, double weight, size_t count, DType dtype);
void AddScaled(void* total, const void* in, double weight, size_t count, DType dtype);

}  // namespace kungfu
