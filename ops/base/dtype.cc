#include "ops/base/dtype.h"

#include <array>
#include <cstdlib>
#include <string>

#include "ops/base/logging.h"

namespace kungfu {
namespace {

enum class Family : uint8_t { kInteger, kFloating, kComplex, kBool };

struct DTypeInfo {
  const char* name;
  size_t size;
  Family family;
};

constexpr DTypeInfo kDTypes[kNumDTypes] = {
    {"uint8", 1, Family::kInteger},     {"uint16", 2, Family::kInteger},      {"uint32", 4, Family::kInteger},
    {"uint64", 8, Family::kInteger},    {"int8", 1, Family::kInteger},        {"int16", 2, Family::kInteger},
    {"int32", 4, Family::kInteger},     {"int64", 8, Family::kInteger},       {"float16", 2, Family::kFloating},
    {"bfloat16", 2, Family::kFloating}, {"float32", 4, Family::kFloating},    {"float64", 8, Family::kFloating},
    {"complex64", 8, Family::kComplex}, {"complex128", 16, Family::kComplex}, {"bool", 1, Family::kBool},
};

constexpr const char* kReduceOps[kNumReduceOps] = {"sum", "mean", "min", "max", "prod"};

// Apart, so that the look into the table is small enough to be everywhere.
[[noreturn]] __attribute__((noinline, cold)) void DieOf(DType dtype) {
  KF_CHECK(false) << Name(dtype);
  std::abort();
}

const DTypeInfo& Info(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  if (index >= kNumDTypes) DieOf(dtype);
  return kDTypes[index];
}

// A name for each value of a byte, those that a broken peer may send included. Never freed: logs may come last.
using Names = std::array<std::string, 256>;

template <typename NameOf>
const Names* NameAll(int known, NameOf name_of, const std::string& kind) {
  auto* names = new Names;
  for (int i = 0; i < 256; ++i) (*names)[i] = i < known ? name_of(i) : kind + " " + std::to_string(i);
  return names;
}

}  // namespace

size_t SizeOf(DType dtype) { return Info(dtype).size; }

const char* Name(DType dtype) {
  static const Names* names = NameAll(kNumDTypes, [](int i) { return kDTypes[i].name; }, "dtype");
  return (*names)[static_cast<uint8_t>(dtype)].c_str();
}

const char* Name(ReduceOp op) {
  static const Names* names = NameAll(kNumReduceOps, [](int i) { return kReduceOps[i]; }, "operation");
  return (*names)[static_cast<uint8_t>(op)].c_str();
}

bool Supports(DType dtype, ReduceOp op) {
  const Family family = Info(dtype).family;
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMean:
    case ReduceOp::kProd:
      return family != Family::kBool;
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      return family != Family::kComplex;
  }
  return false;
}

}  // namespace kungfu
