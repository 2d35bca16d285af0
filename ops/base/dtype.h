// The element types and the reductions that peers can name to each other.

#pragma once

#include <cstddef>
#include <cstdint>

namespace kungfu {

// Values cross processes: append only.
enum class DType : uint8_t {
  kUint8 = 0,
  kUint16 = 1,
  kUint32 = 2,
  kUint64 = 3,
  kInt8 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kFloat16 = 8,
  kBFloat16 = 9,
  kFloat32 = 10,
  kFloat64 = 11,
  kComplex64 = 12,
  kComplex128 = 13,
  kBool = 14,
};
inline constexpr int kNumDTypes = 15;

// Values cross processes: append only.
enum class ReduceOp : uint8_t {
  kSum = 0,
  kMean = 1,
  kMin = 2,
  kMax = 3,
  kProd = 4,
};
inline constexpr int kNumReduceOps = 5;

// Bytes per element.
size_t SizeOf(DType dtype);
// "float32", as NumPy and TensorFlow call it; "dtype 77" for a value that is none.
const char* Name(DType dtype);
// "sum"
const char* Name(ReduceOp op);
// Whether `op` is defined on `dtype`. Every type but bool has sums, means and products. Complex types have no order;
// bool has min (all) and max (any) only.
bool Supports(DType dtype, ReduceOp op);

}  // namespace kungfu
