#include "ops/base/squared_norm.h"

#include <vector>

#include "ops/base/float16.h"
#include "ops/base/reduce.h"
#include "tests/cpp/base/all_instructions.h"
#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

// Of 1, 2, ... count: small enough to be exact.
double Expected(size_t count) { return static_cast<double>(count * (count + 1) * (2 * count + 1) / 6); }

template <typename T>
double OfNumbers(size_t count, DType dtype) {
  std::vector<T> numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = static_cast<T>(i + 1);
  return SquaredNorm(numbers.data(), dtype == DType::kComplex64 || dtype == DType::kComplex128 ? count / 2 : count,
                     dtype);
}

KF_TEST(SquaredNorm, IsExactForSmallNumbers) {
  for (const size_t count : {0, 1, 2, 16, 30, 1000, 1024, 10006}) {
    EXPECT_EQ(OfNumbers<float>(count, DType::kFloat32), Expected(count));
    EXPECT_EQ(OfNumbers<double>(count, DType::kFloat64), Expected(count));
    if (count % 2 != 0) continue;
    EXPECT_EQ(OfNumbers<float>(count, DType::kComplex64), Expected(count));
    EXPECT_EQ(OfNumbers<double>(count, DType::kComplex128), Expected(count));
  }
}

KF_TEST(SquaredNorm, OfHalfPrecision) {
  for (const size_t count : {0, 5, 16, 1024, 1500, 5000}) {
    const std::vector<Float16> half(count, Narrow<Float16>(-2.0f));
    const std::vector<BFloat16> brain(count, Narrow<BFloat16>(-2.0f));
    EXPECT_EQ(SquaredNorm(half.data(), count, DType::kFloat16), 4.0 * static_cast<double>(count));
    EXPECT_EQ(SquaredNorm(brain.data(), count, DType::kBFloat16), 4.0 * static_cast<double>(count));
  }
}

// However an array is cut, the bits are those of the whole.
KF_TEST(SquaredNorm, OfPieces) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
    std::vector<float> numbers(5000);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = 1.0f / static_cast<float>(3 * i + 1);
    std::vector<Float16> halves;
    for (const float number : numbers) halves.push_back(Narrow<Float16>(number));
    const bool is_half = dtype == DType::kFloat16;
    const char* const data =
        is_half ? reinterpret_cast<const char*>(halves.data()) : reinterpret_cast<const char*>(numbers.data());
    SquaredSum sum;
    size_t begin = 0;
    for (const size_t size : {1, 0, 15, 16, 1000, 1023, 2945}) {
      sum.Add(data + begin * SizeOf(dtype), size, dtype);
      begin += size;
    }
    ASSERT_EQ(begin, numbers.size());
    EXPECT_EQ(sum.Total(), SquaredNorm(data, numbers.size(), dtype));
  }
}

// The sum and its norms in one go are those of the functions that do it one after the other.
KF_TEST(SquaredNorm, OfSums) {
  constexpr size_t kCount = 1000;
  std::vector<float> a(kCount), b(kCount), expected(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    a[i] = 1.0f / static_cast<float>(i + 1);
    b[i] = 3.0f / static_cast<float>(i + 2);
  }
  Reduce(expected.data(), a.data(), b.data(), kCount, DType::kFloat32, ReduceOp::kMean);
  Divide(expected.data(), kCount, DType::kFloat32, 3);
  for (const bool in_place : {false, true}) {
    std::vector<float> result = in_place ? a : std::vector<float>(kCount);
    std::vector<float> also = in_place ? b : std::vector<float>(kCount);
    SquaredSum of_a, of_b, of_result;
    size_t begin = 0;
    for (const size_t size : {1, 0, 14, 17, 500, 468}) {
      const float* const left = (in_place ? result : a).data() + begin;
      const float* const right = (in_place ? also : b).data() + begin;
      SquaredSum::AddOfSums(result.data() + begin, also.data() + begin, left, right, size, 3, &of_a, &of_b, &of_result);
      begin += size;
    }
    ASSERT_EQ(begin, kCount);
    EXPECT_TRUE(result == expected);
    EXPECT_TRUE(also == expected);
    EXPECT_EQ(of_a.Total(), SquaredNorm(a.data(), kCount, DType::kFloat32));
    EXPECT_EQ(of_b.Total(), SquaredNorm(b.data(), kCount, DType::kFloat32));
    EXPECT_EQ(of_result.Total(), SquaredNorm(expected.data(), kCount, DType::kFloat32));
  }
}

// The norms of numbers none of which is exact, and of their sums.
std::vector<double> NormsOfThirds() {
  std::vector<float> floats(3000), sums(3000);
  for (size_t i = 0; i < floats.size(); ++i) floats[i] = 1.0f / static_cast<float>(3 * i + 1);
  std::vector<Float16> halves;
  for (const float number : floats) halves.push_back(Narrow<Float16>(number));
  SquaredSum of_a, of_b, of_sums;
  SquaredSum::AddOfSums(sums.data(), sums.data(), floats.data(), floats.data(), sums.size(), 3, &of_a, &of_b, &of_sums);
  return {SquaredNorm(floats.data(), floats.size(), DType::kFloat32),
          SquaredNorm(halves.data(), halves.size(), DType::kFloat16), of_a.Total(), of_b.Total(), of_sums.Total()};
}

KF_TEST(SquaredNorm, AllInstructionsGiveTheSameBits) {
  const std::vector<double> expected = NormsOfThirds();
  testing::WithAllInstructions([&expected] { EXPECT_TRUE(NormsOfThirds() == expected); });
}

KF_TEST(SquaredNorm, DoesNotOverflowWithItsElements) {
  const std::vector<float> large(100, 1e30f);
  EXPECT_GE(SquaredNorm(large.data(), large.size(), DType::kFloat32), 0.9e62);
}

}  // namespace
}  // namespace kungfu
