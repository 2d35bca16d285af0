// How results reach the place where another core reads them.

#include "ops/collective/direct_reduction.h"

#include <cstring>
#include <vector>

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

size_t copied = 0;

void Copy(char* to, const char* from, size_t size) {
  std::memcpy(to, from, size);
  copied += size;
}

// Sums ones and twos. The second place of the result is another array, or that of the second operand.
size_t BytesCopied(size_t count, bool is_elsewhere) {
  std::vector<float> left(count, 1), right(count, 2), result(count), other(count);
  std::vector<float>& second = is_elsewhere ? other : right;
  const size_t size = count * sizeof(float);
  const auto bytes = [](std::vector<float>& array) { return reinterpret_cast<char*>(array.data()); };
  CrossCoreCopier copier(Copy, Copy);
  StoreChoice stores;
  DirectReduction reduction(DType::kFloat32, ReduceOp::kSum, 2, &stores);
  reduction.AddOperand({{bytes(left), size}});
  reduction.AddOperand({{bytes(right), size}});
  reduction.AddResult({{bytes(result), size}});
  reduction.AddResult({{bytes(second), size}}, &copier);
  copied = 0;
  EXPECT_TRUE(reduction.Advance(size));
  EXPECT_TRUE(result == std::vector<float>(count, 3));
  EXPECT_TRUE(second == std::vector<float>(count, 3));
  return copied;
}

// Another core holds the lines of the second place: a loop that stored them one by one would wait for each.
KF_TEST(DirectReduction, SmallResultsAreCopiedElsewhere) {
  for (const size_t count : {16, 8 << 10, 256 << 10}) EXPECT_EQ(BytesCopied(count, true), count * sizeof(float));
}

KF_TEST(DirectReduction, AResultGoesStraightToWhereAnOperandWasRead) {
  for (const size_t count : {16, 8 << 10, 1 << 20}) EXPECT_EQ(BytesCopied(count, false), 0u);
}

// Past the caches no line is fetched.
KF_TEST(DirectReduction, LargeResultsGoStraightElsewhere) { EXPECT_EQ(BytesCopied(1 << 20, true), 0u); }

}  // namespace
}  // namespace kungfu
