#include "ops/base/squared_norm.h"

#include <algorithm>
#include <type_traits>

#include "ops/base/float16.h"
#include "ops/base/logging.h"
#include "ops/base/reduce.h"

namespace kungfu {
namespace {

// As many sums as fill the vector registers, each of every kLanes-th element.
constexpr size_t kLanes = 16;
// Elements of half precision are widened so many at a time.
constexpr size_t kBlock = 1024;
static_assert(kBlock % kLanes == 0);

// The square of a float is exact as a double: a fused product and sum has the same bits.
template <typename T>
KF_INLINE void AddSquares(const T* data, size_t count, double* lanes) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double x = static_cast<double>(data[i + lane]);
      lanes[lane] += x * x;
    }
  }
  for (; i < count; ++i) lanes[i % kLanes] += static_cast<double>(data[i]) * static_cast<double>(data[i]);
}

KF_INLINE void WidenAll(const Float16* in, float* out, size_t count) { Widen(in, out, count); }

KF_INLINE void WidenAll(const BFloat16* in, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = Widen(in[i]);
}

template <typename T>
KF_INLINE double Sum(const T* data, size_t count) {
  double lanes[kLanes] = {};
  if constexpr (std::is_floating_point_v<T>) {
    AddSquares(data, count, lanes);
  } else {
    float wide[kBlock];
    for (size_t i = 0; i < count; i += kBlock) {
      const size_t size = std::min(kBlock, count - i);
      WidenAll(data + i, wide, size);
      AddSquares(wide, size, lanes);
    }
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

KF_INLINE double SumOf(const void* data, size_t count, DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return Sum(static_cast<const Float16*>(data), count);
    case DType::kBFloat16:
      return Sum(static_cast<const BFloat16*>(data), count);
    case DType::kFloat32:
      return Sum(static_cast<const float*>(data), count);
    case DType::kFloat64:
      return Sum(static_cast<const double*>(data), count);
    case DType::kComplex64:
      return Sum(static_cast<const float*>(data), 2 * count);
    case DType::kComplex128:
      return Sum(static_cast<const double*>(data), 2 * count);
    default:
      KF_CHECK(false) << "the norm of " << Name(dtype);
      return 0;
  }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) double SumWithAvx2(const void* data, size_t count, DType dtype) {
  return SumOf(data, count, dtype);
}
#endif

}  // namespace

double SquaredNorm(const void* data, size_t count, DType dtype) {
#if defined(__x86_64__)
  static const bool has_avx2 = AvailableInstructions().back() == Instructions::kAvx2;
  if (has_avx2) return SumWithAvx2(data, count, dtype);
#endif
  return SumOf(data, count, dtype);
}

}  // namespace kungfu
