#include "ops/base/accumulate.h"

#include <algorithm>
#include <cstdint>

#include "ops/base/float16.h"
#include "ops/base/logging.h"
#include "ops/base/reduce.h"

namespace kungfu {
namespace {

template <typename From, typename To>
void Convert(const void* in, void* out, size_t count) {
  const auto* from = static_cast<const From*>(in);
  auto* to = static_cast<To*>(out);
  for (size_t i = 0; i < count; ++i) to[i] = static_cast<To>(from[i]);
}

template <>
void Convert<Float16, float>(const void* in, void* out, size_t count) {
  Widen(static_cast<const Float16*>(in), static_cast<float*>(out), count);
}

template <>
void Convert<float, Float16>(const void* in, void* out, size_t count) {
  Narrow(static_cast<const float*>(in), static_cast<Float16*>(out), count);
}

template <>
void Convert<BFloat16, float>(const void* in, void* out, size_t count) {
  const auto* from = static_cast<const BFloat16*>(in);
  auto* to = static_cast<float*>(out);
  for (size_t i = 0; i < count; ++i) to[i] = Widen(from[i]);
}

template <>
void Convert<float, BFloat16>(const void* in, void* out, size_t count) {
  Narrow(static_cast<const float*>(in), static_cast<BFloat16*>(out), count);
}

using ConvertFunction = void (*)(const void* in, void* out, size_t count);

// The wider type, if there is one, and the ways there and back.
struct Wide {
  DType dtype;
  ConvertFunction widen = nullptr, narrow = nullptr;
};

template <typename Few, typename Many>
constexpr Wide In(DType wide) {
  return {wide, Convert<Few, Many>, Convert<Many, Few>};
}

// By DType.
constexpr Wide kWide[kNumDTypes] = {
    In<uint8_t, uint64_t>(DType::kUint64),
    In<uint16_t, uint64_t>(DType::kUint64),
    In<uint32_t, uint64_t>(DType::kUint64),
    {DType::kUint64},
    In<int8_t, int64_t>(DType::kInt64),
    In<int16_t, int64_t>(DType::kInt64),
    In<int32_t, int64_t>(DType::kInt64),
    {DType::kInt64},
    In<Float16, float>(DType::kFloat32),
    In<BFloat16, float>(DType::kFloat32),
    {DType::kFloat32},
    {DType::kFloat64},
    {DType::kComplex64},
    {DType::kComplex128},
    {DType::kBool},
};

const Wide& WideOf(DType dtype) { return kWide[static_cast<int>(dtype)]; }

}  // namespace

DType AccumulatorOf(DType dtype, ReduceOp op) {
  const bool is_half = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  const bool grows = op == ReduceOp::kMean || (is_half && (op == ReduceOp::kSum || op == ReduceOp::kProd));
  return grows ? WideOf(dtype).dtype : dtype;
}

void Widen(const void* in, void* out, size_t count, DType dtype) {
  KF_CHECK(WideOf(dtype).widen != nullptr) << Name(dtype);
  WideOf(dtype).widen(in, out, count);
}

// In blocks that stay in the nearest cache.
void Accumulate(void* total, const void* in, size_t count, DType dtype, ReduceOp op) {
  constexpr size_t kBlock = 512;
  const DType wide = WideOf(dtype).dtype;
  alignas(uint64_t) char block[kBlock * sizeof(uint64_t)];
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t size = std::min(kBlock, count - begin);
    char* const to = static_cast<char*>(total) + begin * SizeOf(wide);
    Widen(static_cast<const char*>(in) + begin * SizeOf(dtype), block, size, dtype);
    Reduce(to, to, block, size, wide, op);
  }
}

void Narrow(const void* in, void* out, size_t count, DType dtype) {
  KF_CHECK(WideOf(dtype).narrow != nullptr) << Name(dtype);
  WideOf(dtype).narrow(in, out, count);
}

}  // namespace kungfu
