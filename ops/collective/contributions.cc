#include "ops/collective/contributions.h"

#include <cstring>

#include "ops/base/accumulate.h"
#include "ops/base/reduce.h"

namespace kungfu {
namespace {

size_t UpToLine(uint64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

}  // namespace

Contributions::Contributions(DType dtype, ReduceOp op, int size, uint64_t bytes)
    : dtype_(dtype),
      accumulator_(AccumulatorOf(dtype, op)),
      op_(op),
      size_(size),
      bytes_(bytes),
      count_(bytes / SizeOf(dtype)),
      stride_(UpToLine(bytes)),
      all_(new char[size * stride_]) {
  if (accumulator_ != dtype_) wide_.reset(new char[count_ * SizeOf(accumulator_)]);
}

const char* Contributions::Combine() {
  const bool divides = op_ == ReduceOp::kMean;
  char* const result = Of(0);
  if (wide_) {
    char* const total = wide_.get();
    Widen(result, total, count_, dtype_);
    for (int rank = 1; rank < size_; ++rank) Accumulate(total, Of(rank), count_, dtype_, op_);
    if (divides) Divide(total, count_, accumulator_, size_);
    Narrow(total, result, count_, dtype_);
    return result;
  }
  for (int rank = 1; rank < size_; ++rank) Reduce(result, result, Of(rank), count_, dtype_, op_);
  if (divides) Divide(result, count_, dtype_, size_);
  return result;
}

char* Contributions::Gather(const Payload& from, char* to) {
  for (const ConstBytes& piece : from) {
    std::memcpy(to, piece.data, piece.size);
    to += piece.size;
  }
  return to;
}

const char* Contributions::Scatter(const char* from, const Pieces& to) {
  for (const MutableBytes& piece : to) {
    std::memcpy(piece.data, from, piece.size);
    from += piece.size;
  }
  return from;
}

}  // namespace kungfu
