#include "ops/base/neutral.h"

#include <cstdint>
#include <string>
#include <vector>

#include "ops/base/reduce.h"
#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProd};

// Numbers of any bits, but no NaN and no minus zero: their bits need not last.
std::vector<char> SomeElements(DType dtype, size_t count) {
  std::vector<char> bytes(count * SizeOf(dtype));
  uint32_t state = 1;
  for (char& byte : bytes) {
    state = state * 1664525 + 1013904223;
    // No exponent has all ones, as NaN has, and no byte is 0.
    byte = static_cast<char>(dtype == DType::kBool ? state >> 31 : ((state >> 24) & 0xBB) | 1);
  }
  return bytes;
}

KF_TEST(Neutral, ChangesNothingOnEitherSide) {
  constexpr size_t kCount = 1000;
  std::string changed;
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    for (const ReduceOp op : kOps) {
      if (!Supports(dtype, op)) continue;
      const std::vector<char> elements = SomeElements(dtype, kCount);
      std::vector<char> neutral(elements.size(), 77), out(elements.size());
      FillNeutral(neutral.data(), kCount, dtype, op);
      Reduce(out.data(), elements.data(), neutral.data(), kCount, dtype, op);
      if (out != elements) changed += std::string(Name(op)) + " of " + Name(dtype) + ", on the right; ";
      Reduce(out.data(), neutral.data(), elements.data(), kCount, dtype, op);
      if (out != elements) changed += std::string(Name(op)) + " of " + Name(dtype) + ", on the left; ";
    }
  }
  EXPECT_EQ(changed, "");
}

KF_TEST(Neutral, OfNoElements) { FillNeutral(nullptr, 0, DType::kFloat32, ReduceOp::kSum); }

}  // namespace
}  // namespace kungfu
