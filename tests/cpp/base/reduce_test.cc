#include "ops/base/reduce.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/cpp/base/all_instructions.h"
#include "tests/cpp/base/float16_reference.h"
#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

using testing::Decode16;
using testing::Encode16;
using testing::Format16;
using testing::WithAllInstructions;

constexpr size_t kCounts[] = {0, 1, 10, 1000, 10007};

using Random = std::mt19937_64;

// An element type by its definition: how to make one, and what each operation gives, one element at a time.
template <typename T>
struct Integer {
  using Element = T;
  using Limits = std::numeric_limits<T>;

  static T Make(Random* random) {
    const uint64_t bits = (*random)();
    const T extremes[] = {0, 1, Limits::min(), Limits::max()};
    return bits % 8 == 0 ? extremes[bits / 8 % 4] : static_cast<T>(bits >> 7);
  }
  static T Apply(ReduceOp op, T a, T b) {
    __extension__ using Wide = unsigned __int128;
    switch (op) {
      case ReduceOp::kMin:
        return a < b ? a : b;
      case ReduceOp::kMax:
        return a > b ? a : b;
      case ReduceOp::kProd:
        return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
      default:
        return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
    }
  }
  // Euclid's division of magnitudes: the quotient is cut off toward zero.
  static T Divide(T a, int divisor) {
    const bool is_negative = a < 0;
    const uint64_t magnitude = is_negative ? 0 - static_cast<uint64_t>(a) : static_cast<uint64_t>(a);
    const uint64_t quotient = magnitude / static_cast<uint64_t>(divisor);
    return static_cast<T>(is_negative ? 0 - quotient : quotient);
  }
  static bool Same(T a, T b) { return a == b; }
};

template <typename T>
T MakeFloat(Random* random) {
  using Limits = std::numeric_limits<T>;
  const uint64_t bits = (*random)();
  const T extremes[] = {
      0, T(-0.0), 1, Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), Limits::max(), Limits::denorm_min()};
  if (bits % 8 == 0) return extremes[bits / 8 % 8];
  return std::ldexp(static_cast<T>(static_cast<int64_t>(bits) >> 10), static_cast<int>(bits % 32) - 60);
}

template <typename T>
T ApplyToFloats(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::kMin:
      return std::isnan(a) ? a : std::isnan(b) ? b : a < b ? a : b;
    case ReduceOp::kMax:
      return std::isnan(a) ? a : std::isnan(b) ? b : a > b ? a : b;
    case ReduceOp::kProd:
      return a * b;
    default:
      return a + b;
  }
}

template <typename T>
bool SameFloats(T a, T b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

template <typename T>
struct Float {
  using Element = T;
  static T Make(Random* random) { return MakeFloat<T>(random); }
  static T Apply(ReduceOp op, T a, T b) { return ApplyToFloats(op, a, b); }
  static T Divide(T a, int divisor) { return a / static_cast<T>(divisor); }
  static bool Same(T a, T b) { return SameFloats(a, b); }
};

template <const Format16& format>
struct Float16Bits {
  using Element = uint16_t;
  static float Wide(uint16_t bits) { return static_cast<float>(Decode16(format, bits)); }

  static uint16_t Make(Random* random) { return static_cast<uint16_t>((*random)()); }
  static uint16_t Apply(ReduceOp op, uint16_t a, uint16_t b) {
    return Encode16(format, ApplyToFloats(op, Wide(a), Wide(b)));
  }
  static uint16_t Divide(uint16_t a, int divisor) { return Encode16(format, Wide(a) / static_cast<float>(divisor)); }
  static bool Same(uint16_t a, uint16_t b) {
    return testing::IsNan16(format, a) ? testing::IsNan16(format, b) : a == b;
  }
};

template <typename T>
struct Complex {
  using Element = std::complex<T>;
  static Element Make(Random* random) { return {MakeFloat<T>(random), MakeFloat<T>(random)}; }
  static Element Apply(ReduceOp op, Element a, Element b) {
    if (op != ReduceOp::kProd) return a + b;
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  }
  static Element Divide(Element a, int divisor) { return a / static_cast<T>(divisor); }
  static bool Same(Element a, Element b) { return SameFloats(a.real(), b.real()) && SameFloats(a.imag(), b.imag()); }
};

// A byte that is not 0 is true, whatever else it is; a result is 0 or 1.
struct Bool {
  using Element = uint8_t;
  static uint8_t Make(Random* random) {
    const uint8_t bytes[] = {0, 0, 0, 1, 1, 2, 0x80, 0xff};
    return bytes[(*random)() % 8];
  }
  static uint8_t Apply(ReduceOp op, uint8_t a, uint8_t b) { return op == ReduceOp::kMin ? a && b : a || b; }
  static bool Same(uint8_t a, uint8_t b) { return a == b; }
};

// Calls visit(type, dtype) for each dtype that has a mean.
template <typename Visit>
void ForEachDTypeWithMean(Visit visit) {
  visit(Float16Bits<testing::kFloat16Format>(), DType::kFloat16);
  visit(Float16Bits<testing::kBFloat16Format>(), DType::kBFloat16);
  visit(Float<float>(), DType::kFloat32);
  visit(Float<double>(), DType::kFloat64);
  visit(Complex<float>(), DType::kComplex64);
  visit(Complex<double>(), DType::kComplex128);
  visit(Integer<uint8_t>(), DType::kUint8);
  visit(Integer<uint16_t>(), DType::kUint16);
  visit(Integer<uint32_t>(), DType::kUint32);
  visit(Integer<uint64_t>(), DType::kUint64);
  visit(Integer<int8_t>(), DType::kInt8);
  visit(Integer<int16_t>(), DType::kInt16);
  visit(Integer<int32_t>(), DType::kInt32);
  visit(Integer<int64_t>(), DType::kInt64);
}

template <typename Visit>
void ForEachDType(Visit visit) {
  ForEachDTypeWithMean(visit);
  visit(Bool(), DType::kBool);
}

template <typename Type>
using Elements = std::vector<typename Type::Element>;

// One more than `count`, to see that nothing is written past the end.
template <typename Type>
Elements<Type> MakeElements(size_t count, Random* random) {
  Elements<Type> elements;
  for (size_t i = 0; i <= count; ++i) elements.push_back(Type::Make(random));
  return elements;
}

template <typename Type>
void ExpectSame(const Elements<Type>& actual, const Elements<Type>& expected, const std::string& what) {
  size_t wrong = 0;
  for (size_t i = 0; i < expected.size(); ++i) wrong += !Type::Same(actual[i], expected[i]);
  if (wrong > 0) testing::Fail(__FILE__, __LINE__, what + ": " + std::to_string(wrong) + " elements are wrong");
}

template <typename Type>
void CheckReduce(DType dtype, ReduceOp op, size_t count) {
  const std::string what = std::string(Name(op)) + " of " + std::to_string(count) + " " + Name(dtype);
  Random random(count);
  const auto a = MakeElements<Type>(count, &random);
  const auto b = MakeElements<Type>(count, &random);
  const auto last = Type::Make(&random);
  Elements<Type> expected;
  for (size_t i = 0; i < count; ++i) expected.push_back(Type::Apply(op, a[i], b[i]));

  const auto with_last = [&](Elements<Type> elements) {
    elements.resize(count);
    elements.push_back(last);
    return elements;
  };
  expected = with_last(expected);
  Elements<Type> out = with_last({});
  Reduce(out.data(), a.data(), b.data(), count, dtype, op);
  ExpectSame<Type>(out, expected, what);

  Elements<Type> left = with_last(a);
  Reduce(left.data(), left.data(), b.data(), count, dtype, op);
  ExpectSame<Type>(left, expected, what + " in place of the left");

  Elements<Type> right = with_last(b);
  Reduce(right.data(), a.data(), right.data(), count, dtype, op);
  ExpectSame<Type>(right, expected, what + " in place of the right");
}

void CheckEveryReduction() {
  int combinations = 0;
  ForEachDType([&](auto type, DType dtype) {
    using Type = decltype(type);
    EXPECT_EQ(sizeof(typename Type::Element), SizeOf(dtype));
    for (int i = 0; i < kNumReduceOps; ++i) {
      const auto op = static_cast<ReduceOp>(i);
      if (!Supports(dtype, op)) continue;
      ++combinations;
      for (size_t count : kCounts) CheckReduce<Type>(dtype, op, count);
    }
  });
  EXPECT_EQ(combinations, 12 * 5 + 2 * 3 + 2);
}

KF_TEST(Reduce, EveryDTypeAndOperation) { WithAllInstructions(CheckEveryReduction); }

KF_TEST(Reduce, AnyAlignmentOfTheElement) {
  Random random(1);
  for (size_t offset = 0; offset < 9; ++offset) {
    const auto a = MakeElements<Float<float>>(200, &random);
    const auto b = MakeElements<Float<float>>(200, &random);
    Elements<Float<float>> out(100), expected(100);
    for (size_t i = 0; i < 100; ++i) expected[i] = a[i + offset] + b[i + 2 * offset];
    Reduce(out.data(), a.data() + offset, b.data() + 2 * offset, 100, DType::kFloat32, ReduceOp::kSum);
    ExpectSame<Float<float>>(out, expected, "offset " + std::to_string(offset));
  }
}

KF_TEST(Reduce, NothingOfNothing) { Reduce(nullptr, nullptr, nullptr, 0, DType::kFloat32, ReduceOp::kSum); }

void CheckEveryDivision() {
  ForEachDTypeWithMean([](auto type, DType dtype) {
    using Type = decltype(type);
    for (size_t count : kCounts) {
      for (int divisor : {1, 2, 3, 4, 5, 7, 1000003}) {
        Random random(count);
        auto data = MakeElements<Type>(count, &random);
        Elements<Type> expected = data;
        for (size_t i = 0; i < count; ++i) expected[i] = Type::Divide(data[i], divisor);
        Divide(data.data(), count, dtype, divisor);
        ExpectSame<Type>(data, expected, std::string(Name(dtype)) + " by " + std::to_string(divisor));
      }
    }
  });
}

template <typename T>
void CheckTwofoldSums(DType dtype, decltype(&TwofoldSum) sum) {
  // Where the results go: to the operands, in either order, and elsewhere.
  for (const auto& [out, also] : {std::pair(0, 1), std::pair(1, 0), std::pair(2, 3)}) {
    for (const size_t count : kCounts) {
      for (const int divisor : {1, 2, 3}) {
        Random random(count);
        Elements<Float<T>> arrays[4], expected(count);
        for (auto& array : arrays) array = MakeElements<Float<T>>(count, &random);
        for (size_t i = 0; i < count; ++i) expected[i] = (arrays[0][i] + arrays[1][i]) / static_cast<T>(divisor);
        sum(arrays[out].data(), arrays[also].data(), arrays[0].data(), arrays[1].data(), count, dtype, divisor);
        const std::string what = std::string(Name(dtype)) + " by " + std::to_string(divisor);
        ExpectSame<Float<T>>(arrays[out], expected, what);
        ExpectSame<Float<T>>(arrays[also], expected, what);
      }
    }
  }
}

KF_TEST(TwofoldSum, InPlaceAndElsewhere) {
  WithAllInstructions([] {
    for (const auto sum : {TwofoldSum, TwofoldSumPastCaches}) {
      CheckTwofoldSums<float>(DType::kFloat32, sum);
      CheckTwofoldSums<double>(DType::kFloat64, sum);
    }
  });
}

// Nothing before or behind them is written.
KF_TEST(TwofoldSum, PastCachesAnywhereInALine) {
  constexpr size_t kRoom = 400;
  alignas(64) static float out[kRoom], also[kRoom];
  for (size_t offset = 0; offset <= 16; ++offset) {
    for (const size_t count : {0, 1, 15, 16, 17, 127, 128, 129, 300}) {
      std::vector<float> a(count), b(count), expected(kRoom, -1);
      for (size_t i = 0; i < count; ++i) {
        a[i] = static_cast<float>(i);
        b[i] = static_cast<float>(3 * i + 2);
        expected[offset + i] = static_cast<float>(2 * i + 1);
      }
      std::fill(out, out + kRoom, -1.0f);
      std::fill(also, also + kRoom, -1.0f);
      TwofoldSumPastCaches(out + offset, also + offset, a.data(), b.data(), count, DType::kFloat32, 2);
      EXPECT_TRUE(std::equal(out, out + kRoom, expected.begin()));
      EXPECT_TRUE(std::equal(also, also + kRoom, expected.begin()));
    }
  }
}

KF_TEST(TwofoldSum, IsThereForSumsAndMeansOfFloats) {
  EXPECT_TRUE(HasTwofoldSum(DType::kFloat32, ReduceOp::kSum));
  EXPECT_TRUE(HasTwofoldSum(DType::kFloat64, ReduceOp::kMean));
  EXPECT_FALSE(HasTwofoldSum(DType::kFloat32, ReduceOp::kMax));
  EXPECT_FALSE(HasTwofoldSum(DType::kInt32, ReduceOp::kSum));
  EXPECT_FALSE(HasTwofoldSum(DType::kFloat16, ReduceOp::kSum));
}

// 0.3·a − 1.7·b of elements that are floats, each of which is `widen` of one of `Type`.
template <typename Type, typename Wide, typename Widened>
void CheckWeightedSum(DType dtype, Widened widen) {
  using T = typename Wide::Element;
  for (const size_t count : kCounts) {
    Random random(count);
    const auto a = MakeElements<Type>(count, &random), b = MakeElements<Type>(count, &random);
    Elements<Wide> total(count + 1), expected(count + 1);
    total[count] = expected[count] = 5;
    for (size_t i = 0; i < count; ++i) {
      const T first = static_cast<T>(0.3) * widen(a[i]);
      expected[i] = first + static_cast<T>(-1.7) * widen(b[i]);
    }
    Scale(total.data(), a.data(), 0.3, count, dtype);
    AddScaled(total.data(), b.data(), -1.7, count, dtype);
    ExpectSame<Wide>(total, expected, std::string("a weighted sum of ") + Name(dtype));
  }
}

template <typename T>
void CheckWeightedSumsOf(DType real, DType complex) {
  CheckWeightedSum<Float<T>, Float<T>>(real, [](T x) { return x; });
  Random random(3);
  const auto a = MakeElements<Complex<T>>(100, &random), b = MakeElements<Complex<T>>(100, &random);
  Elements<Complex<T>> total(100), expected(100);
  for (size_t i = 0; i < 100; ++i) {
    const auto part = [](T x, T y) {
      const T first = static_cast<T>(0.3) * x;
      return first + static_cast<T>(-1.7) * y;
    };
    expected[i] = {part(a[i].real(), b[i].real()), part(a[i].imag(), b[i].imag())};
  }
  Scale(total.data(), a.data(), 0.3, 100, complex);
  AddScaled(total.data(), b.data(), -1.7, 100, complex);
  ExpectSame<Complex<T>>(total, expected, std::string("a weighted sum of ") + Name(complex));
}

KF_TEST(WeightedSum, EveryDTypeThatHasAMean) {
  WithAllInstructions([] {
    CheckWeightedSumsOf<float>(DType::kFloat32, DType::kComplex64);
    CheckWeightedSumsOf<double>(DType::kFloat64, DType::kComplex128);
    using Half = Float16Bits<testing::kFloat16Format>;
    using Brain = Float16Bits<testing::kBFloat16Format>;
    CheckWeightedSum<Half, Float<float>>(DType::kFloat16, [](uint16_t x) { return Half::Wide(x); });
    CheckWeightedSum<Brain, Float<float>>(DType::kBFloat16, [](uint16_t x) { return Brain::Wide(x); });
  });
}

KF_TEST(Divide, EveryDTypeThatHasAMean) { WithAllInstructions(CheckEveryDivision); }

// Where a quotient changes, and at the ends of the type.
template <typename T>
void CheckQuotients(DType dtype) {
  constexpr T kLeast = std::numeric_limits<T>::min(), kMost = std::numeric_limits<T>::max();
  for (const int divisor : {1, 2, 3, 5, 7, 8, 10, 16, 255, 256, 257, 641, (1 << 30) - 1, 1 << 30, 0x7fffffff}) {
    const T by = static_cast<T>(divisor);
    std::vector<T> values = {kLeast, kLeast + 1, kMost, kMost - 1};
    for (const uint64_t multiple : {uint64_t{0}, uint64_t{1}, uint64_t{7}, static_cast<uint64_t>(kMost / by)}) {
      for (const uint64_t distance : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
        values.push_back(static_cast<T>(multiple * by + distance));
        values.push_back(static_cast<T>(0 - multiple * by + distance));
      }
    }
    for (int bit = 0; bit < 63; ++bit) values.push_back((T{1} << bit) - 1);
    std::vector<T> expected;
    for (const T value : values) expected.push_back(value / by);
    Divide(values.data(), values.size(), dtype, divisor);
    EXPECT_TRUE(values == expected);
  }
}

KF_TEST(Divide, LongIntegers) {
  WithAllInstructions([] {
    CheckQuotients<int64_t>(DType::kInt64);
    CheckQuotients<uint64_t>(DType::kUint64);
  });
}

}  // namespace
}  // namespace kungfu
