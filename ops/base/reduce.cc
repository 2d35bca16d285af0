#include "ops/base/reduce.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "ops/base/accumulate.h"
#include "ops/base/bytes.h"
#include "ops/base/copy.h"
#include "ops/base/float16.h"
#include "ops/base/instructions.h"
#include "ops/base/logging.h"

// Tells the vectoriser that element i depends on element i alone, also where `out` is one of the operands.
#if defined(__clang__)
#define KF_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
// It says so where it does not use that, as with complex numbers, which it unrolls instead.
#pragma clang diagnostic ignored "-Wpass-failed"
#else
#define KF_INDEPENDENT _Pragma("GCC ivdep")
#endif

// With registers as wide as can be, which compilers do not take by themselves.
#define KF_AVX512_SETS "avx512f,avx512bw,avx512dq,avx512vl"
#if defined(__clang__)
#define KF_AVX512 __attribute__((target(KF_AVX512_SETS), min_vector_width(512)))
#else
#define KF_AVX512 __attribute__((target(KF_AVX512_SETS ",prefer-vector-width=512")))
#endif

namespace kungfu {
namespace {

struct Bool {
  uint8_t byte;  // true unless 0
};

template <typename T>
struct Complex {
  T re, im;

  KF_INLINE friend Complex operator+(const Complex& a, const Complex& b) { return {a.re + b.re, a.im + b.im}; }
  // The formula as it stands: std::complex would call a function for each product, to mend infinities.
  KF_INLINE friend Complex operator*(const Complex& a, const Complex& b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  KF_INLINE friend Complex operator/(const Complex& a, T b) { return {a.re / b, a.im / b}; }
};

template <typename T>
constexpr bool kIsComplex = std::is_same_v<T, Complex<float>> || std::is_same_v<T, Complex<double>>;
template <typename T>
constexpr bool kIsBool = std::is_same_v<T, Bool>;

// Integers wrap, which only unsigned ones may; small ones would be promoted to int, so they are widened past it.
template <typename T>
using Wrapping = std::conditional_t<(sizeof(T) < sizeof(unsigned)), unsigned, std::make_unsigned_t<T>>;

struct Sum {
  template <typename T>
  KF_INLINE static T Apply(const T& a, const T& b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
    } else {
      return a + b;
    }
  }
};

struct Prod {
  template <typename T>
  KF_INLINE static T Apply(const T& a, const T& b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
    } else {
      return a * b;
    }
  }
};

// A comparison with NaN is false: `b` is then chosen, unless NaN is on the side of `a`.
template <typename T>
KF_INLINE bool IsNan(T x) {
  if constexpr (std::is_floating_point_v<T>) return x != x;
  return false;
}

struct Min {
  template <typename T>
  KF_INLINE static T Apply(const T& a, const T& b) {
    return a < b || IsNan(a) ? a : b;
  }
  KF_INLINE static Bool Apply(Bool a, Bool b) { return {static_cast<uint8_t>((a.byte != 0) & (b.byte != 0))}; }
};

struct Max {
  template <typename T>
  KF_INLINE static T Apply(const T& a, const T& b) {
    return a > b || IsNan(a) ? a : b;
  }
  KF_INLINE static Bool Apply(Bool a, Bool b) { return {static_cast<uint8_t>((a.byte | b.byte) != 0)}; }
};

template <typename T, typename Operation>
struct ReduceLoop {
  KF_INLINE static void Run(void* out, const void* a, const void* b, size_t count) {
    auto* to = static_cast<T*>(out);
    const auto* left = static_cast<const T*>(a);
    const auto* right = static_cast<const T*>(b);
    KF_INDEPENDENT
    for (size_t i = 0; i < count; ++i) to[i] = Operation::Apply(left[i], right[i]);
  }
};

template <typename T>
struct DivideLoop {
  KF_INLINE static void Run(void* data, size_t count, int divisor) {
    auto* elements = static_cast<T*>(data);
    for (size_t i = 0; i < count; ++i) elements[i] = static_cast<T>(elements[i] / divisor);
  }
};

// Divides by a product, which processors make ten times as fast as a quotient of 64 bits: x / divisor is the upper half
// of x times 2^64 / divisor, rounded up. One bit of the factor has no room, and is added afterwards. (Granlund and
// Montgomery: Division by invariant integers using multiplication, 1994, figure 4.1.)
class Divisor {
 public:
  explicit Divisor(uint32_t divisor)
      : bits_(divisor > 1 ? 32 - __builtin_clz(divisor - 1) : 0),
        factor_(static_cast<uint64_t>((Wide{(uint64_t{1} << bits_) - divisor} << 64) / divisor) + 1),
        first_shift_(bits_ > 0 ? 1 : 0),
        second_shift_(bits_ > 0 ? bits_ - 1 : 0) {}

  KF_INLINE uint64_t Quotient(uint64_t x) const {
    const uint64_t upper = static_cast<uint64_t>(Wide{x} * factor_ >> 64);
    return (upper + ((x - upper) >> first_shift_)) >> second_shift_;
  }
  KF_INLINE int64_t Quotient(int64_t x) const {
    const uint64_t sign = x < 0 ? ~uint64_t{0} : 0;
    return static_cast<int64_t>((Quotient((static_cast<uint64_t>(x) ^ sign) - sign) ^ sign) - sign);
  }

 private:
  using Wide = unsigned __int128;

  const int bits_;  // of the least power of two that is no less than the divisor
  const uint64_t factor_;
  const int first_shift_, second_shift_;
};

template <typename T>
struct LongDivideLoop {
  KF_INLINE static void Run(void* data, size_t count, int divisor) {
    auto* elements = static_cast<T*>(data);
    const Divisor by(static_cast<uint32_t>(divisor));
    for (size_t i = 0; i < count; ++i) elements[i] = by.Quotient(elements[i]);
  }
};

template <>
struct DivideLoop<uint64_t> : LongDivideLoop<uint64_t> {};
template <>
struct DivideLoop<int64_t> : LongDivideLoop<int64_t> {};

template <typename Operation>
struct ReduceLoop<BFloat16, Operation> {
  KF_INLINE static void Run(void* out, const void* a, const void* b, size_t count) {
    auto* to = static_cast<BFloat16*>(out);
    const auto* left = static_cast<const BFloat16*>(a);
    const auto* right = static_cast<const BFloat16*>(b);
    KF_INDEPENDENT
    for (size_t i = 0; i < count; ++i) to[i] = Narrow<BFloat16>(Operation::Apply(Widen(left[i]), Widen(right[i])));
  }
};

template <>
struct DivideLoop<BFloat16> {
  KF_INLINE static void Run(void* data, size_t count, int divisor) {
    auto* elements = static_cast<BFloat16*>(data);
    for (size_t i = 0; i < count; ++i) elements[i] = Narrow<BFloat16>(Widen(elements[i]) / divisor);
  }
};

// Float16 is converted by another function, in blocks that stay in the nearest cache.
constexpr size_t kBlock = 512;

template <typename Operation>
struct ReduceLoop<Float16, Operation> {
  KF_INLINE static void Run(void* out, const void* a, const void* b, size_t count) {
    auto* to = static_cast<Float16*>(out);
    const auto* left = static_cast<const Float16*>(a);
    const auto* right = static_cast<const Float16*>(b);
    float wide_left[kBlock], wide_right[kBlock];
    for (size_t begin = 0; begin < count; begin += kBlock) {
      const size_t size = std::min(kBlock, count - begin);
      Widen(left + begin, wide_left, size);
      Widen(right + begin, wide_right, size);
      for (size_t i = 0; i < size; ++i) wide_left[i] = Operation::Apply(wide_left[i], wide_right[i]);
      Narrow(wide_left, to + begin, size);
    }
  }
};

template <>
struct DivideLoop<Float16> {
  KF_INLINE static void Run(void* data, size_t count, int divisor) {
    auto* elements = static_cast<Float16*>(data);
    float wide[kBlock];
    for (size_t begin = 0; begin < count; begin += kBlock) {
      const size_t size = std::min(kBlock, count - begin);
      Widen(elements + begin, wide, size);
      for (size_t i = 0; i < size; ++i) wide[i] /= divisor;
      Narrow(wide, elements + begin, size);
    }
  }
};

template <typename T>
struct TwofoldSumLoop {
  KF_INLINE static void Run(void* out, void* also, const void* a, const void* b, size_t count, int divisor) {
    auto* to = static_cast<T*>(out);
    auto* too = static_cast<T*>(also);
    const auto* left = static_cast<const T*>(a);
    const auto* right = static_cast<const T*>(b);
    if (divisor == 1) {
      KF_INDEPENDENT
      for (size_t i = 0; i < count; ++i) to[i] = too[i] = left[i] + right[i];
    } else {
      KF_INDEPENDENT
      for (size_t i = 0; i < count; ++i) to[i] = too[i] = (left[i] + right[i]) / divisor;
    }
  }
};

// Some lines of sums at a time, which are then stored twice. Elements before the first whole line, and behind the last
// one, are stored like any others.
template <typename T>
struct TwofoldSumPastCachesLoop {
  KF_INLINE static void Run(void* out, void* also, const void* a, const void* b, size_t count, int divisor) {
    constexpr size_t kElements = kLine / sizeof(T), kLines = 8;
    auto* to = static_cast<T*>(out);
    auto* too = static_cast<T*>(also);
    const auto* left = static_cast<const T*>(a);
    const auto* right = static_cast<const T*>(b);
    const size_t skew = reinterpret_cast<uintptr_t>(out) % kLine / sizeof(T);
    const size_t head = std::min(count, skew == 0 ? 0 : kElements - skew);
    TwofoldSumLoop<T>::Run(to, too, left, right, head, divisor);
    alignas(kLine) T sums[kElements * kLines];
    size_t i = head;
    while (count - i >= kElements) {
      const size_t lines = std::min(kLines, (count - i) / kElements);
      const size_t size = lines * kElements;
      TwofoldSumLoop<T>::Run(sums, sums, left + i, right + i, size, divisor);
      CopyLinesPastCaches(reinterpret_cast<char*>(to + i), reinterpret_cast<const char*>(sums), lines);
      CopyLinesPastCaches(reinterpret_cast<char*>(too + i), reinterpret_cast<const char*>(sums), lines);
      i += size;
    }
    OrderPastCaches();
    TwofoldSumLoop<T>::Run(to + i, too + i, left + i, right + i, count - i, divisor);
  }
};

template <typename T>
struct ScaleLoop {
  KF_INLINE static void Run(void* total, const void* in, double weight, size_t count) {
    auto* to = static_cast<T*>(total);
    const auto* from = static_cast<const T*>(in);
    const T factor = static_cast<T>(weight);
    KF_INDEPENDENT
    for (size_t i = 0; i < count; ++i) to[i] = factor * from[i];
  }
};

template <typename T>
struct AddScaledLoop {
  KF_INLINE static void Run(void* total, const void* in, double weight, size_t count) {
    auto* to = static_cast<T*>(total);
    const auto* from = static_cast<const T*>(in);
    const T factor = static_cast<T>(weight);
    KF_INDEPENDENT
    for (size_t i = 0; i < count; ++i) to[i] = to[i] + factor * from[i];
  }
};

using ReduceKernel = void (*)(void* out, const void* a, const void* b, size_t count);
using DivideKernel = void (*)(void* data, size_t count, int divisor);
using TwofoldSumKernel = void (*)(void* out, void* also, const void* a, const void* b, size_t count, int divisor);
using ScaleKernel = void (*)(void* total, const void* in, double weight, size_t count);

// The functions that a loop is compiled into: one per set of instructions. All compute the same bits.
#define KF_INSTRUCTIONS(name, attributes)                                                                \
  struct name {                                                                                          \
    template <typename Loop>                                                                             \
    attributes static void Reduce(void* out, const void* a, const void* b, size_t count) {               \
      Loop::Run(out, a, b, count);                                                                       \
    }                                                                                                    \
    template <typename Loop>                                                                             \
    attributes static void Divide(void* data, size_t count, int divisor) {                               \
      Loop::Run(data, count, divisor);                                                                   \
    }                                                                                                    \
    template <typename Loop>                                                                             \
    attributes static void TwofoldSum(void* out, void* also, const void* a, const void* b, size_t count, \
                                      int divisor) {                                                     \
      Loop::Run(out, also, a, b, count, divisor);                                                        \
    }                                                                                                    \
    template <typename Loop>                                                                             \
    attributes static void Scale(void* total, const void* in, double weight, size_t count) {             \
      Loop::Run(total, in, weight, count);                                                               \
    }                                                                                                    \
  }

KF_INSTRUCTIONS(Baseline, );  // on arm64 that includes NEON
#if defined(__x86_64__)
KF_INSTRUCTIONS(Avx2, __attribute__((target("avx2"))));
KF_INSTRUCTIONS(Avx512, KF_AVX512);
#endif

// Unsupported combinations stay null.
struct Kernels {
  ReduceKernel reduce[kNumReduceOps] = {};
  DivideKernel divide = nullptr;
  TwofoldSumKernel twofold_sum = nullptr, twofold_sum_past_caches = nullptr;
  ScaleKernel scale = nullptr, add_scaled = nullptr;
};

template <typename Set, typename T>
constexpr Kernels KernelsOf() {
#if defined(__x86_64__)
  // Though told not to (-ffp-contract=off) GCC 12 fuses a complex product with AVX-512, which gives other bits.
  if constexpr (std::is_same_v<Set, Avx512> && kIsComplex<T>) return KernelsOf<Avx2, T>();
#endif
  Kernels kernels;
  const auto of = [&kernels](ReduceOp op) -> ReduceKernel& { return kernels.reduce[static_cast<int>(op)]; };
  if constexpr (!kIsBool<T>) {
    of(ReduceOp::kSum) = Set::template Reduce<ReduceLoop<T, Sum>>;
    of(ReduceOp::kProd) = Set::template Reduce<ReduceLoop<T, Prod>>;
  }
  if constexpr (!kIsComplex<T>) {
    of(ReduceOp::kMin) = Set::template Reduce<ReduceLoop<T, Min>>;
    of(ReduceOp::kMax) = Set::template Reduce<ReduceLoop<T, Max>>;
  }
  if constexpr (!kIsBool<T>) {
    of(ReduceOp::kMean) = of(ReduceOp::kSum);
    kernels.divide = Set::template Divide<DivideLoop<T>>;
  }
  if constexpr (std::is_floating_point_v<T>) {
    kernels.twofold_sum = Set::template TwofoldSum<TwofoldSumLoop<T>>;
    kernels.twofold_sum_past_caches = Set::template TwofoldSum<TwofoldSumPastCachesLoop<T>>;
    kernels.scale = Set::template Scale<ScaleLoop<T>>;
    kernels.add_scaled = Set::template Scale<AddScaledLoop<T>>;
  }
  return kernels;
}

// By DType.
template <typename Set>
constexpr Kernels kKernels[kNumDTypes] = {
    KernelsOf<Set, uint8_t>(),        KernelsOf<Set, uint16_t>(),        KernelsOf<Set, uint32_t>(),
    KernelsOf<Set, uint64_t>(),       KernelsOf<Set, int8_t>(),          KernelsOf<Set, int16_t>(),
    KernelsOf<Set, int32_t>(),        KernelsOf<Set, int64_t>(),         KernelsOf<Set, Float16>(),
    KernelsOf<Set, BFloat16>(),       KernelsOf<Set, float>(),           KernelsOf<Set, double>(),
    KernelsOf<Set, Complex<float>>(), KernelsOf<Set, Complex<double>>(), KernelsOf<Set, Bool>(),
};

const Kernels* KernelsOf(Instructions instructions) {
#if defined(__x86_64__)
  if (instructions == Instructions::kAvx512) return kKernels<Avx512>;
  if (instructions == Instructions::kAvx2) return kKernels<Avx2>;
#endif
  return kKernels<Baseline>;
}

// A complex number by a weight is two real ones.
DType RealOf(DType dtype, size_t* count) {
  if (dtype != DType::kComplex64 && dtype != DType::kComplex128) return dtype;
  *count *= 2;
  return dtype == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64;
}

bool IsHalf(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

const Kernels& KernelsFor(DType dtype) { return KernelsOf(UsedInstructions())[static_cast<int>(dtype)]; }

}  // namespace

void Reduce(void* out, const void* a, const void* b, size_t count, DType dtype, ReduceOp op) {
  KF_CHECK(Supports(dtype, op)) << Name(op) << " of " << Name(dtype);
  KernelsFor(dtype).reduce[static_cast<int>(op)](out, a, b, count);
}

void Divide(void* data, size_t count, DType dtype, int divisor) {
  KF_CHECK(Supports(dtype, ReduceOp::kMean) && divisor > 0) << Name(dtype) << " by " << divisor;
  KernelsFor(dtype).divide(data, count, divisor);
}

bool HasTwofoldSum(DType dtype, ReduceOp op) {
  return (op == ReduceOp::kSum || op == ReduceOp::kMean) && KernelsFor(dtype).twofold_sum != nullptr;
}

void TwofoldSum(void* out, void* also, const void* a, const void* b, size_t count, DType dtype, int divisor) {
  KF_CHECK(HasTwofoldSum(dtype, ReduceOp::kSum) && divisor > 0) << Name(dtype) << " by " << divisor;
  KernelsFor(dtype).twofold_sum(out, also, a, b, count, divisor);
}

void TwofoldSumPastCaches(void* out, void* also, const void* a, const void* b, size_t count, DType dtype, int divisor) {
  KF_CHECK(HasTwofoldSum(dtype, ReduceOp::kSum) && divisor > 0) << Name(dtype) << " by " << divisor;
  KernelsFor(dtype).twofold_sum_past_caches(out, also, a, b, count, divisor);
}

void Scale(void* total, const void* in, double weight, size_t count, DType dtype) {
  if (IsHalf(dtype)) {
    Widen(in, total, count, dtype);
    return Scale(total, total, weight, count, DType::kFloat32);
  }
  const DType real = RealOf(dtype, &count);
  KF_CHECK(KernelsFor(real).scale != nullptr) << Name(dtype);
  KernelsFor(real).scale(total, in, weight, count);
}

void AddScaled(void* total, const void* in, double weight, size_t count, DType dtype) {
  if (IsHalf(dtype)) {
    float wide[kBlock];
    for (size_t begin = 0; begin < count; begin += kBlock) {
      const size_t size = std::min(kBlock, count - begin);
      Widen(static_cast<const char*>(in) + begin * SizeOf(dtype), wide, size, dtype);
      AddScaled(static_cast<float*>(total) + begin, wide, weight, size, DType::kFloat32);
    }
    return;
  }
  const DType real = RealOf(dtype, &count);
  KF_CHECK(KernelsFor(real).add_scaled != nullptr) << Name(dtype);
  KernelsFor(real).add_scaled(total, in, weight, count);
}

}  // namespace kungfu
