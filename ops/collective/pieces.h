// A collective's memory: several tensors of one type, seen as one array of elements.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/base/bytes.h"
#include "ops/base/dtype.h"
#include "ops/base/squared_norm.h"
#include "ops/plan/partition.h"
#include "ops/router/copy_sink.h"

namespace kungfu {

// One tensor. `recv` may be `send` (in place) or null (nothing is kept here).
struct Span {
  const void* send = nullptr;
  void* recv = nullptr;
  uint64_t count = 0;  // elements
};

// A range of the array, as it lies in the tensors.
Payload SendPieces(const ShortList<Span>& spans, Range elements, size_t element_size);
Pieces RecvPieces(const ShortList<Span>& spans, Range elements, size_t element_size);
// The same, in place of what is there.
void SetSend(const ShortList<Span>& spans, Range elements, size_t element_size, Payload* pieces);
void SetRecv(const ShortList<Span>& spans, Range elements, size_t element_size, Pieces* pieces);

// REQUIRES: a floating or complex type.
void AddSquares(const Payload& pieces, DType dtype, SquaredSum* sum);
double SquaredNorm(const Payload& pieces, DType dtype);

// Reduces what arrives from where the transport has it: to = left op arriving. `left` may be `to`.
class ReduceSink : public Sink {
 public:
  // REQUIRES: `left` and `to` have equal total sizes.
  ReduceSink(Payload left, Pieces to, DType dtype, ReduceOp op)
      : left_(std::move(left)), to_(std::move(to)), dtype_(dtype), op_(op) {}

  MutableBytes Reserve(size_t) override { return {}; }
  void Commit(size_t) override {}
  void Consume(ConstBytes view) override;

 private:
  const Payload left_;
  const Pieces to_;
  const DType dtype_;
  const ReduceOp op_;
  size_t left_piece_ = 0, left_offset_ = 0;
  size_t to_piece_ = 0, to_offset_ = 0;
};

// An array in which several peers' elements are combined in a wider type (AccumulatorOf).
class Accumulator {
 public:
  Accumulator(const Payload& first, DType dtype, ReduceOp op);
  // An array of so many elements that are not there yet.
  Accumulator(uint64_t count, DType dtype, ReduceOp op);

  char* total() { return total_.get(); }
  // For the peer that continues with it.
  Payload bytes() const { return {{total_.get(), count_ * SizeOf(wide_)}}; }
  // Adds what arrives, be it elements or another accumulator's bytes.
  std::unique_ptr<Sink> MakeSink(bool arrives_wide);
  // Narrows into `to`; a mean is the mean of `peers`. REQUIRES: `to` has room for as many elements.
  void Finish(const Pieces& to, int peers);

 private:
  class WideSink;

  const DType dtype_, wide_;
  const ReduceOp op_;
  const uint64_t count_;
  const std::unique_ptr<char[]> total_;
};

}  // namespace kungfu
