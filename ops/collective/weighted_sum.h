// A weighted sum of arrays, of which the first is here and the others arrive.

#pragma once

#include <memory>

#include "ops/collective/pieces.h"

namespace kungfu {

// The arrays are added in the order in which they are given: one after the other, never two at once.
class WeightedSum {
 public:
  // Begins with weight · first. The sum of 16-bit types is kept in float32 memory of its own until Finish, any other in
  // `to`, which must not overlap `first`. REQUIRES: a floating or complex type; equal total sizes.
  WeightedSum(const Payload& first, double weight, Pieces to, DType dtype);

  // Adds weight · what arrives. Must live as long as the sink.
  std::unique_ptr<Sink> MakeSink(double weight);
  // Puts the sum into its place; no more is added.
  void Finish();

 private:
  class AddingSink;
  using Step = void (*)(void* total, const void* in, double weight, size_t count, DType dtype);
  // Of the next element, within the pieces of the sum.
  struct Place {
    size_t piece = 0, offset = 0;
  };

  void Apply(Step step, ConstBytes in, double weight, Place* place);

  const DType dtype_;
  const Pieces to_;
  std::unique_ptr<float[]> wide_;
  Pieces total_;  // to_, or wide_
};

}  // namespace kungfu
