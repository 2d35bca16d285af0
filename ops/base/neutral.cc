#include "ops/base/neutral.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "ops/base/float16.h"
#include "ops/base/logging.h"

namespace kungfu {
namespace {

template <typename T>
void FillWith(void* out, size_t count, const T& element) {
  std::fill_n(static_cast<T*>(out), count, element);
}

template <typename T>
void FillNumbers(void* out, size_t count, ReduceOp op) {
  using Limits = std::numeric_limits<T>;
  if (op == ReduceOp::kProd) return FillWith(out, count, T{1});
  const T largest = Limits::has_infinity ? Limits::infinity() : Limits::max();
  const T smallest = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  FillWith(out, count, op == ReduceOp::kMin ? largest : smallest);
}

template <typename T>
void FillHalves(void* out, size_t count, ReduceOp op) {
  float element;
  FillNumbers<float>(&element, 1, op);
  FillWith(out, count, Narrow<T>(element));
}

// Real and imaginary parts. Complex numbers have no order.
template <typename T>
void FillComplexOnes(void* out, size_t count) {
  auto* parts = static_cast<T*>(out);
  for (size_t i = 0; i < 2 * count; ++i) parts[i] = i % 2 == 0 ? T{1} : T{0};
}

}  // namespace

void FillNeutral(void* out, size_t count, DType dtype, ReduceOp op) {
  KF_CHECK(Supports(dtype, op)) << Name(op) << " of " << Name(dtype);
  if (op == ReduceOp::kSum || op == ReduceOp::kMean) {
    if (count > 0) std::memset(out, 0, count * SizeOf(dtype));
    return;
  }
  switch (dtype) {
    case DType::kUint8:
      return FillNumbers<uint8_t>(out, count, op);
    case DType::kUint16:
      return FillNumbers<uint16_t>(out, count, op);
    case DType::kUint32:
      return FillNumbers<uint32_t>(out, count, op);
    case DType::kUint64:
      return FillNumbers<uint64_t>(out, count, op);
    case DType::kInt8:
      return FillNumbers<int8_t>(out, count, op);
    case DType::kInt16:
      return FillNumbers<int16_t>(out, count, op);
    case DType::kInt32:
      return FillNumbers<int32_t>(out, count, op);
    case DType::kInt64:
      return FillNumbers<int64_t>(out, count, op);
    case DType::kFloat16:
      return FillHalves<Float16>(out, count, op);
    case DType::kBFloat16:
      return FillHalves<BFloat16>(out, count, op);
    case DType::kFloat32:
      return FillNumbers<float>(out, count, op);
    case DType::kFloat64:
      return FillNumbers<double>(out, count, op);
    case DType::kComplex64:
      return FillComplexOnes<float>(out, count);
    case DType::kComplex128:
      return FillComplexOnes<double>(out, count);
    case DType::kBool:
      return FillWith(out, count, static_cast<uint8_t>(op == ReduceOp::kMin));
  }
}

}  // namespace kungfu
