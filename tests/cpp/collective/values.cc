#include "tests/cpp/collective/values.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>

namespace kungfu::testing {
namespace {

// The 16-bit formats by hand: whole numbers and their quotients are positive and in the normal range here.
uint16_t ToBits(double value, int exponent_bits, int mantissa_bits) {
  if (value == 0) return 0;
  int exponent;
  double mantissa = std::frexp(value, &exponent) * 2 - 1;  // value = (1 + mantissa) * 2^(exponent - 1)
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const long bits = std::lrint(std::ldexp(mantissa, mantissa_bits));  // to nearest even; may carry
  return static_cast<uint16_t>((static_cast<long>(exponent - 1 + bias) << mantissa_bits) + bits);
}

double FromBits(uint16_t bits, int exponent_bits, int mantissa_bits) {
  if (bits == 0) return 0;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) - bias;
  return std::ldexp(1 + std::ldexp(bits & ((1 << mantissa_bits) - 1), -mantissa_bits), exponent);
}

template <typename T>
void Put(std::vector<char>* out, uint64_t i, T value) {
  std::memcpy(out->data() + i * sizeof(T), &value, sizeof(T));
}

template <typename T>
T Get(const std::vector<char>& in, uint64_t i) {
  T value;
  std::memcpy(&value, in.data() + i * sizeof(T), sizeof(T));
  return value;
}

// A real number that every dtype can hold, as `dtype`.
void Store(std::vector<char>* out, uint64_t i, DType dtype, double value) {
  switch (dtype) {
    case DType::kUint8:
      return Put(out, i, static_cast<uint8_t>(value));
    case DType::kUint16:
      return Put(out, i, static_cast<uint16_t>(value));
    case DType::kUint32:
      return Put(out, i, static_cast<uint32_t>(value));
    case DType::kUint64:
      return Put(out, i, static_cast<uint64_t>(value));
    case DType::kInt8:
      return Put(out, i, static_cast<int8_t>(value));
    case DType::kInt16:
      return Put(out, i, static_cast<int16_t>(value));
    case DType::kInt32:
      return Put(out, i, static_cast<int32_t>(value));
    case DType::kInt64:
      return Put(out, i, static_cast<int64_t>(value));
    case DType::kFloat16:
      return Put(out, i, ToBits(value, 5, 10));
    case DType::kBFloat16:
      return Put(out, i, ToBits(value, 8, 7));
    case DType::kFloat32:
      return Put(out, i, static_cast<float>(value));
    case DType::kFloat64:
      return Put(out, i, value);
    case DType::kComplex64:
      return Put(out, i, std::complex<float>(static_cast<float>(value), 0));
    case DType::kComplex128:
      return Put(out, i, std::complex<double>(value, 0));
    case DType::kBool:
      return Put(out, i, static_cast<uint8_t>(value));
  }
}

double Load(const std::vector<char>& in, uint64_t i, DType dtype) {
  switch (dtype) {
    case DType::kUint8:
    case DType::kBool:
      return Get<uint8_t>(in, i);
    case DType::kUint16:
      return Get<uint16_t>(in, i);
    case DType::kUint32:
      return Get<uint32_t>(in, i);
    case DType::kUint64:
      return static_cast<double>(Get<uint64_t>(in, i));
    case DType::kInt8:
      return Get<int8_t>(in, i);
    case DType::kInt16:
      return Get<int16_t>(in, i);
    case DType::kInt32:
      return Get<int32_t>(in, i);
    case DType::kInt64:
      return static_cast<double>(Get<int64_t>(in, i));
    case DType::kFloat16:
      return FromBits(Get<uint16_t>(in, i), 5, 10);
    case DType::kBFloat16:
      return FromBits(Get<uint16_t>(in, i), 8, 7);
    case DType::kFloat32:
      return Get<float>(in, i);
    case DType::kFloat64:
      return Get<double>(in, i);
    case DType::kComplex64:
      return Get<std::complex<float>>(in, i).real();
    case DType::kComplex128:
      return Get<std::complex<double>>(in, i).real();
  }
  return 0;
}

}  // namespace

std::vector<char> MakeValues(DType dtype, ReduceOp op, uint64_t count, int rank) {
  // Products of eight stay below 128; sums of eight too, and are exact in bfloat16's 8 bits.
  const uint64_t range = dtype == DType::kBool || op == ReduceOp::kProd ? 2 : 11;
  const uint64_t low = op == ReduceOp::kProd && dtype != DType::kBool ? 1 : 0;
  std::vector<char> values(count * SizeOf(dtype));
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t mixed = (i * 2654435761u + static_cast<uint64_t>(rank) * 40503u) >> 3;
    Store(&values, i, dtype, static_cast<double>(low + mixed % (op == ReduceOp::kProd && rank > 5 ? 1 : range)));
  }
  return values;
}

std::vector<char> MakeFractions(DType dtype, uint64_t count, int rank) {
  std::vector<char> values(count * SizeOf(dtype));
  uint32_t state = 12345 + 77 * rank;
  for (uint64_t i = 0; i < count; ++i) {
    state = state * 1664525 + 1013904223;
    const float number = static_cast<float>(static_cast<int32_t>(state)) * 1e-7f;
    // The upper half of a float32 is a bfloat16.
    const char* const begin = reinterpret_cast<const char*>(&number) + sizeof(number) - SizeOf(dtype);
    std::memcpy(values.data() + i * SizeOf(dtype), begin, SizeOf(dtype));
  }
  return values;
}

std::vector<double> NumbersOf(DType dtype, const std::vector<char>& values) {
  std::vector<double> numbers(values.size() / SizeOf(dtype));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = Load(values, i, dtype);
  return numbers;
}

std::vector<char> ExpectedValues(DType dtype, ReduceOp op, const std::vector<std::vector<char>>& inputs) {
  std::vector<char> result = inputs[0];
  const uint64_t count = result.size() / SizeOf(dtype);
  for (uint64_t i = 0; i < count; ++i) {
    double value = Load(inputs[0], i, dtype);
    for (size_t rank = 1; rank < inputs.size(); ++rank) {
      const double other = Load(inputs[rank], i, dtype);
      if (op == ReduceOp::kMin) {
        value = std::min(value, other);
      } else if (op == ReduceOp::kMax) {
        value = std::max(value, other);
      } else if (op == ReduceOp::kProd) {
        value *= other;
      } else {
        value += other;
      }
    }
    if (op == ReduceOp::kMean) value /= static_cast<double>(inputs.size());
    Store(&result, i, dtype, value);
  }
  return result;
}

}  // namespace kungfu::testing
