#include "ops/base/dtype.h"

#include <string>

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

KF_TEST(DType, NamesAndSizes) {
  EXPECT_EQ(std::string(Name(DType::kUint8)), "uint8");
  EXPECT_EQ(std::string(Name(DType::kBFloat16)), "bfloat16");
  EXPECT_EQ(std::string(Name(DType::kBool)), "bool");
  EXPECT_EQ(SizeOf(DType::kBool), 1u);
  EXPECT_EQ(SizeOf(DType::kFloat16), 2u);
  EXPECT_EQ(SizeOf(DType::kFloat32), 4u);
  EXPECT_EQ(SizeOf(DType::kComplex64), 8u);
  EXPECT_EQ(SizeOf(DType::kComplex128), 16u);
}

KF_TEST(DType, NamesWhatIsNone) {
  EXPECT_EQ(std::string(Name(static_cast<DType>(77))), "dtype 77");
  EXPECT_EQ(std::string(Name(static_cast<ReduceOp>(255))), "operation 255");
  EXPECT_EQ(std::string(Name(ReduceOp::kProd)), "prod");
}

// The table of the documentation: sum, mean and prod, min and max.
KF_TEST(DType, SupportsWhatTheTableSays) {
  struct Row {
    DType first, last;
    bool sums, orders;
  };
  const Row rows[] = {
      {DType::kUint8, DType::kFloat64, true, true},
      {DType::kComplex64, DType::kComplex128, true, false},
      {DType::kBool, DType::kBool, false, true},
  };
  int seen = 0;
  for (const Row& row : rows) {
    for (int i = static_cast<int>(row.first); i <= static_cast<int>(row.last); ++i, ++seen) {
      const auto dtype = static_cast<DType>(i);
      EXPECT_EQ(Supports(dtype, ReduceOp::kSum), row.sums);
      EXPECT_EQ(Supports(dtype, ReduceOp::kProd), row.sums);
      EXPECT_EQ(Supports(dtype, ReduceOp::kMean), row.sums);
      EXPECT_EQ(Supports(dtype, ReduceOp::kMin), row.orders);
      EXPECT_EQ(Supports(dtype, ReduceOp::kMax), row.orders);
    }
  }
  EXPECT_EQ(seen, kNumDTypes);
}

}  // namespace
}  // namespace kungfu
