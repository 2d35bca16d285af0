// Small data of all ranks of an all-reduce, which are combined in the order of the ranks.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ops/base/bytes.h"
#include "ops/base/dtype.h"
#include "ops/router/copy_sink.h"

namespace kungfu {

class Contributions {
 public:
  // `bytes`: of each. A mean is divided by `size`.
  Contributions(DType dtype, ReduceOp op, int size, uint64_t bytes);

  size_t bytes() const { return bytes_; }
  // The place of a rank's.
  char* Of(int rank) { return all_.get() + rank * stride_; }
  // The result, which lies in one of these places.
  const char* Combine();

  // Copies the pieces to one place, or from one place to the pieces; returns its end.
  static char* Gather(const Payload& from, char* to);
  static const char* Scatter(const char* from, const Pieces& to);

 private:
  const DType dtype_, accumulator_;
  const ReduceOp op_;
  const int size_;
  const size_t bytes_, count_;
  const size_t stride_;  // whole elements, each in its place
  std::unique_ptr<char[]> all_;
  std::unique_ptr<char[]> wide_;  // if they are combined in a wider type
};

}  // namespace kungfu
