// Inputs of reductions: most are exact in every dtype, so that results can be compared bit for bit.

#pragma once

#include <cstdint>
#include <vector>

#include "ops/base/dtype.h"

namespace kungfu::testing {

// Threads do not care what they move: where ThreadSanitizer makes all of it slow, one dtype stands for the others.
#ifdef __SANITIZE_THREAD__
constexpr int kFirstDType = static_cast<int>(DType::kFloat32), kEndDType = kFirstDType + 1;
#else
constexpr int kFirstDType = 0, kEndDType = kNumDTypes;
#endif

// How many elements a reduction is tried with: also less than one for each peer.
inline constexpr uint64_t kCounts[] = {0, 1, 10, 1000, 10007};

// Element i of rank r: a small whole number that depends on both (for bool: 0 or 1).
std::vector<char> MakeValues(DType dtype, ReduceOp op, uint64_t count, int rank);

// Elements of rank r whose sum depends on the order of its operands. REQUIRES: dtype is float32 or bfloat16.
std::vector<char> MakeFractions(DType dtype, uint64_t count, int rank);

// The elements, of complex ones the real parts.
std::vector<double> NumbersOf(DType dtype, const std::vector<char>& values);

// What the reduction over the ranks' inputs must be. A mean may be a fraction: it is the rounded quotient of the exact
// sum.
std::vector<char> ExpectedValues(DType dtype, ReduceOp op, const std::vector<std::vector<char>>& inputs);

}  // namespace kungfu::testing
