// Many arrays are combined in a wider type, and narrowed once, at the end.

#pragma once

#include <cstddef>

#include "ops/base/dtype.h"

namespace kungfu {

// The type in which many arrays are combined. For sums, means and products of the 16-bit floating types it is float32.
// For means of integers it is int64 or uint64, so that those of fewer bits never wrap. Else it is the type itself.
DType AccumulatorOf(DType dtype, ReduceOp op);

// These three REQUIRE that AccumulatorOf(dtype, kMean) is another type. `out` of Widen, `total`, and `in` of Narrow
// have that type.
void Widen(const void* in, void* out, size_t count, DType dtype);
// total[i] = total[i] op in[i].
void Accumulate(void* total, const void* in, size_t count, DType dtype, ReduceOp op);
// Floats are rounded to nearest even. Integers REQUIRE that `dtype` has their value.
void Narrow(const void* in, void* out, size_t count, DType dtype);

}  // namespace kungfu
