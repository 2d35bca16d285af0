#include "ops/collective/weighted_sum.h"

#include <algorithm>
#include <utility>

#include "ops/base/accumulate.h"
#include "ops/base/reduce.h"

namespace kungfu {

class WeightedSum::AddingSink : public Sink {
 public:
  AddingSink(WeightedSum* sum, double weight) : sum_(sum), weight_(weight) {}

  MutableBytes Reserve(size_t) override { return {}; }
  void Commit(size_t) override {}
  void Consume(ConstBytes view) override { sum_->Apply(&AddScaled, view, weight_, &place_); }

 private:
  WeightedSum* const sum_;
  const double weight_;
  Place place_;
};

WeightedSum::WeightedSum(const Payload& first, double weight, Pieces to, DType dtype)
    : dtype_(dtype), to_(std::move(to)), total_(to_) {
  if (AccumulatorOf(dtype, ReduceOp::kSum) != dtype) {
    const size_t count = TotalSize(first) / SizeOf(dtype);
    wide_.reset(new float[count]);
    total_ = {{reinterpret_cast<char*>(wide_.get()), count * sizeof(float)}};
  }
  Place place;
  for (const ConstBytes& piece : first) Apply(&Scale, piece, weight, &place);
}

std::unique_ptr<Sink> WeightedSum::MakeSink(double weight) { return std::make_unique<AddingSink>(this, weight); }

void WeightedSum::Apply(Step step, ConstBytes in, double weight, Place* place) {
  const size_t element = SizeOf(dtype_), wide = wide_ ? sizeof(float) : element;
  while (in.size > 0) {
    Advance(total_, &place->piece, &place->offset);
    const MutableBytes& total = total_[place->piece];
    const size_t count = std::min(in.size / element, (total.size - place->offset) / wide);
    step(total.data + place->offset, in.data, weight, count, dtype_);
    place->offset += count * wide;
    in.data += count * element;
    in.size -= count * element;
  }
}

void WeightedSum::Finish() {
  if (!wide_) return;
  const float* from = wide_.get();
  for (const MutableBytes& piece : to_) {
    Narrow(from, piece.data, piece.size / SizeOf(dtype_), dtype_);
    from += piece.size / SizeOf(dtype_);
  }
  wide_ = nullptr;
}

}  // namespace kungfu
