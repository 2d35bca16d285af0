#include "ops/base/squared_norm.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "ops/base/float16.h"
#include "ops/base/instructions.h"
#include "ops/base/logging.h"

namespace kungfu {
namespace {

constexpr size_t kLanes = SquaredSum::kLanes;
// Elements of half precision are widened so many at a time.
constexpr size_t kBlock = 1024;

template <typename T>
KF_INLINE double Square(T x) {
  return static_cast<double>(x) * static_cast<double>(x);
}

// The square of a float is exact as a double. A fused product and sum, if the processor has it, gives the same bits in
// one instruction.
template <bool kFuses, typename T>
KF_INLINE double PlusSquare(double sum, T x) {
  if constexpr (kFuses && std::is_same_v<T, float>) return __builtin_fma(x, x, sum);
  return sum + Square(x);
}

// Sums in an array that the compiler keeps in registers: none of its indices is unknown.
struct Sums {
  double of[kLanes];

  KF_INLINE explicit Sums(const double* lanes) { std::memcpy(of, lanes, sizeof(of)); }
  KF_INLINE void To(double* lanes) const { std::memcpy(lanes, of, sizeof(of)); }
};

// How many of `count` elements come before the first lane.
KF_INLINE size_t HeadOf(size_t count, size_t first_lane) { return std::min(count, (kLanes - first_lane) % kLanes); }

template <bool kFuses, typename T>
KF_INLINE void AddSquares(const T* data, size_t count, size_t first_lane, double* lanes) {
  const size_t head = HeadOf(count, first_lane % kLanes);
  for (size_t i = 0; i < head; ++i) lanes[(first_lane + i) % kLanes] += Square(data[i]);
  size_t i = head;
  Sums sums(lanes);
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums.of[lane] = PlusSquare<kFuses>(sums.of[lane], data[i + lane]);
  }
  sums.To(lanes);
  for (; i < count; ++i) lanes[(first_lane + i) % kLanes] += Square(data[i]);
}

KF_INLINE void WidenAll(const Float16* in, float* out, size_t count) { Widen(in, out, count); }

KF_INLINE void WidenAll(const BFloat16* in, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = Widen(in[i]);
}

template <bool kFuses, typename T>
KF_INLINE size_t AddAll(const T* data, size_t count, size_t first_lane, double* lanes) {
  if constexpr (std::is_floating_point_v<T>) {
    AddSquares<kFuses>(data, count, first_lane, lanes);
  } else {
    float wide[kBlock];
    for (size_t i = 0; i < count; i += kBlock) {
      const size_t size = std::min(kBlock, count - i);
      WidenAll(data + i, wide, size);
      AddSquares<kFuses>(wide, size, first_lane + i, lanes);
    }
  }
  return count;
}

// Returns how many squares were added.
template <bool kFuses>
KF_INLINE size_t AddTo(double* lanes, size_t first_lane, const void* data, size_t count, DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return AddAll<kFuses>(static_cast<const Float16*>(data), count, first_lane, lanes);
    case DType::kBFloat16:
      return AddAll<kFuses>(static_cast<const BFloat16*>(data), count, first_lane, lanes);
    case DType::kFloat32:
      return AddAll<kFuses>(static_cast<const float*>(data), count, first_lane, lanes);
    case DType::kFloat64:
      return AddAll<kFuses>(static_cast<const double*>(data), count, first_lane, lanes);
    case DType::kComplex64:
      return AddAll<kFuses>(static_cast<const float*>(data), 2 * count, first_lane, lanes);
    case DType::kComplex128:
      return AddAll<kFuses>(static_cast<const double*>(data), 2 * count, first_lane, lanes);
    default:
      KF_CHECK(false) << "the norm of " << Name(dtype);
      return 0;
  }
}

// The arrays of SquaredSum::AddOfSums, and the lanes of those that are measured.
struct SumArrays {
  float *to, *also;
  const float *a, *b;
  double *of_to, *of_a, *of_b;
};

KF_INLINE void AddOne(const SumArrays& arrays, size_t i, size_t lane, float divisor) {
  const float x = arrays.a[i], y = arrays.b[i], z = (x + y) / divisor;
  arrays.to[i] = arrays.also[i] = z;
  arrays.of_a[lane] += Square(x);
  arrays.of_b[lane] += Square(y);
  arrays.of_to[lane] += Square(z);
}

// All lanes of each row at once.
template <bool kFuses, bool kMeasuresA, bool kMeasuresTo>
KF_INLINE void AddRows(const SumArrays& arrays, size_t begin, size_t rows, float divisor) {
  Sums of_a(arrays.of_a), of_b(arrays.of_b), of_to(arrays.of_to);
  for (size_t i = begin; i < begin + rows * kLanes; i += kLanes) {
    float x[kLanes], y[kLanes], z[kLanes];
    for (size_t lane = 0; lane < kLanes; ++lane) x[lane] = arrays.a[i + lane];
    for (size_t lane = 0; lane < kLanes; ++lane) y[lane] = arrays.b[i + lane];
    for (size_t lane = 0; lane < kLanes; ++lane) {
      z[lane] = kMeasuresTo ? (x[lane] + y[lane]) / divisor : x[lane] + y[lane];
    }
    for (size_t lane = 0; lane < kLanes; ++lane) arrays.to[i + lane] = z[lane];
    for (size_t lane = 0; lane < kLanes; ++lane) arrays.also[i + lane] = z[lane];
    for (size_t lane = 0; lane < kLanes; ++lane) {
      if (kMeasuresA) of_a.of[lane] = PlusSquare<kFuses>(of_a.of[lane], x[lane]);
      of_b.of[lane] = PlusSquare<kFuses>(of_b.of[lane], y[lane]);
      if (kMeasuresTo) of_to.of[lane] = PlusSquare<kFuses>(of_to.of[lane], z[lane]);
    }
  }
  of_a.To(arrays.of_a);
  of_b.To(arrays.of_b);
  of_to.To(arrays.of_to);
}

using RowsFunction = void (*)(const SumArrays& arrays, size_t begin, size_t rows, float divisor);

template <bool kMeasuresA, bool kMeasuresTo>
void AddRowsPlainly(const SumArrays& arrays, size_t begin, size_t rows, float divisor) {
  AddRows<false, kMeasuresA, kMeasuresTo>(arrays, begin, rows, divisor);
}

#if defined(__x86_64__)
template <bool kMeasuresA, bool kMeasuresTo>
__attribute__((target("avx2,fma"))) void AddRowsWithAvx2(const SumArrays& arrays, size_t begin, size_t rows,
                                                         float divisor) {
  AddRows<true, kMeasuresA, kMeasuresTo>(arrays, begin, rows, divisor);
}

// With fused products and sums.
bool UsesAvx2() { return UsedInstructions() != Instructions::kBaseline; }
#endif

template <bool kMeasuresA, bool kMeasuresTo>
RowsFunction Rows() {
#if defined(__x86_64__)
  if (UsesAvx2()) return AddRowsWithAvx2<kMeasuresA, kMeasuresTo>;
#endif
  return AddRowsPlainly<kMeasuresA, kMeasuresTo>;
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) size_t AddWithAvx2(double* lanes, size_t first_lane, const void* data, size_t count,
                                                       DType dtype) {
  return AddTo<true>(lanes, first_lane, data, count, dtype);
}
#endif

}  // namespace

void SquaredSum::Add(const void* data, size_t count, DType dtype) {
#if defined(__x86_64__)
  next_ +=
      UsesAvx2() ? AddWithAvx2(lanes_, next_, data, count, dtype) : AddTo<false>(lanes_, next_, data, count, dtype);
#else
  next_ += AddTo<false>(lanes_, next_, data, count, dtype);
#endif
  next_ %= kLanes;
}

void SquaredSum::AddOfSums(float* to, float* also, const float* a, const float* b, size_t count, int divisor,
                           SquaredSum* of_a, SquaredSum* of_b, SquaredSum* of_to) {
  double unused[kLanes] = {};
  const SumArrays arrays = {to, also, a, b, of_to ? of_to->lanes_ : unused, of_a ? of_a->lanes_ : unused, of_b->lanes_};
  const RowsFunction add_rows =
      of_a ? (of_to ? Rows<true, true>() : Rows<true, false>()) : (of_to ? Rows<false, true>() : Rows<false, false>());
  const float quotient = static_cast<float>(divisor);
  const size_t first = of_b->next_, head = HeadOf(count, first), rows = (count - head) / kLanes;
  for (size_t i = 0; i < head; ++i) AddOne(arrays, i, first + i, quotient);
  add_rows(arrays, head, rows, quotient);
  for (size_t i = head + rows * kLanes; i < count; ++i) AddOne(arrays, i, (first + i) % kLanes, quotient);
  for (SquaredSum* sum : {of_a, of_b, of_to}) {
    if (sum) sum->next_ = (first + count) % kLanes;
  }
}

double SquaredSum::Total() const {
  double sum = 0;
  for (const double lane : lanes_) sum += lane;
  return sum;
}

double SquaredNorm(const void* data, size_t count, DType dtype) {
  SquaredSum sum;
  sum.Add(data, count, dtype);
  return sum.Total();
}

}  // namespace kungfu
