// float16_test.cc has the conversions of floats, each of them.

#include "ops/base/accumulate.h"

#include <cstdint>
#include <limits>
#include <vector>

#include "tests/cpp/base/all_instructions.h"
#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

KF_TEST(Accumulate, InTheTypeThatTheOperationNeeds) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kProd}) {
    EXPECT_TRUE(AccumulatorOf(DType::kFloat16, op) == DType::kFloat32);
    EXPECT_TRUE(AccumulatorOf(DType::kBFloat16, op) == DType::kFloat32);
    EXPECT_TRUE(AccumulatorOf(DType::kFloat64, op) == DType::kFloat64);
  }
  EXPECT_TRUE(AccumulatorOf(DType::kFloat16, ReduceOp::kMax) == DType::kFloat16);
  for (const DType dtype : {DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64}) {
    EXPECT_TRUE(AccumulatorOf(dtype, ReduceOp::kMean) == DType::kInt64);
    EXPECT_TRUE(AccumulatorOf(dtype, ReduceOp::kSum) == dtype);
  }
  for (const DType dtype : {DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64}) {
    EXPECT_TRUE(AccumulatorOf(dtype, ReduceOp::kMean) == DType::kUint64);
    EXPECT_TRUE(AccumulatorOf(dtype, ReduceOp::kMin) == dtype);
  }
}

template <typename T, typename Wide>
void CheckExtremes(DType dtype) {
  constexpr size_t kCount = 1003;  // several blocks, and a part of one
  using Limits = std::numeric_limits<T>;
  for (const T value : {Limits::min(), Limits::max(), T{0}, T{1}}) {
    const std::vector<T> elements(kCount, value);
    std::vector<Wide> total(kCount + 1, 77);
    std::vector<T> result(kCount + 1, 77);
    Widen(elements.data(), total.data(), kCount, dtype);
    for (int i = 0; i < 2; ++i) Accumulate(total.data(), elements.data(), kCount, dtype, ReduceOp::kMean);
    std::vector<Wide> sums(kCount, static_cast<Wide>(3 * static_cast<Wide>(value)));
    sums.push_back(77);
    EXPECT_TRUE(total == sums);

    std::vector<T> expected = elements;
    expected.push_back(77);
    const std::vector<Wide> wide(elements.begin(), elements.end());
    Narrow(wide.data(), result.data(), kCount, dtype);
    EXPECT_TRUE(result == expected);
  }
}

KF_TEST(Accumulate, IntegersDoNotWrap) {
  testing::WithAllInstructions([] {
    CheckExtremes<int8_t, int64_t>(DType::kInt8);
    CheckExtremes<int16_t, int64_t>(DType::kInt16);
    CheckExtremes<int32_t, int64_t>(DType::kInt32);
    CheckExtremes<uint8_t, uint64_t>(DType::kUint8);
    CheckExtremes<uint16_t, uint64_t>(DType::kUint16);
    CheckExtremes<uint32_t, uint64_t>(DType::kUint32);
  });
}

}  // namespace
}  // namespace kungfu
