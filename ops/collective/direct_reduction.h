// The arithmetic of the movers that work in other peers' memory. It reads a share of all peers' data in place, and
// writes the results to their places, in blocks that stay in the nearest caches.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ops/base/bytes.h"
#include "ops/base/cross_core_copier.h"
#include "ops/base/dtype.h"
#include "ops/base/squared_norm.h"
#include "ops/collective/pieces.h"

namespace kungfu {

// Operands are combined in the order in which they are given, so the result does not depend on the peer that computes
// it. The same memory may be an operand and a result.
class DirectReduction {
 public:
  // A mean is divided by `peers`; 0: it is not, as a part of a larger reduction. `stores` chooses those of two results
  // that lie where no operand was read.
  DirectReduction(DType dtype, ReduceOp op, int peers, StoreChoice* stores = nullptr);
  ~DirectReduction();

  // The arrays: at least two, of equal sizes, with boundaries of pieces between elements.
  void AddOperand(Payload operand);
  // The places for the result, at least one. It is computed in the first; `copier` copies it to another one.
  void AddResult(Pieces result, CrossCoreCopier* copier = nullptr);
  // Instead of a place, of a part of a larger reduction whose operands are combined in a wider type (AccumulatorOf): it
  // is left in `total`, which it fits.
  void SetTotal(Accumulator* total) { total_ = total->total(); }
  // Lets go of all arrays and places, for others. REQUIRES: nothing is measured.
  void Clear();

  // From here on the squares are added up, while they are in the cache: of all operands, which are here, and of the
  // result.
  void MeasureOperands() { operand_squares_.resize(operands_.size()); }
  void MeasureResult() { result_squares_.emplace(); }
  double operand_norm() const;
  double result_norm() const { return result_squares_->Total(); }

  // Goes on until about `most` bytes are reduced. Returns whether all are.
  bool Advance(uint64_t most);

 private:
  // A place in a list of pieces.
  template <typename List>
  struct Cursor {
    List list;
    size_t piece = 0;
    size_t offset = 0;

    auto* data() const { return list[piece].data + offset; }
    size_t left() const { return list[piece].size - offset; }
    void Advance(uint64_t bytes);
  };

  // Makes room for what lies between the operands and the result.
  void Prepare();
  size_t SizeOfBlock() const;
  void Block(size_t bytes);
  bool MeasuresSums() const;
  bool IsSecondAtHand() const;
  bool IsTwofold() const;
  // The divisor of the sum of all operands.
  int divisor() const { return op_ == ReduceOp::kMean && peers_ > 0 ? peers_ : 1; }
  // Both return how many results are there then, from the first on.
  size_t CombineMeasured(size_t count);
  size_t Combine(size_t count);
  void SumTwofold(const char* left, const char* right, size_t count);
  StoreChoice::Stores StoresOfNextStretch();
  void CombineWide(char* result, size_t count);

  const DType dtype_;
  const ReduceOp op_;
  const int peers_;
  StoreChoice* const stores_;
  const DType accumulator_;
  uint64_t whole_ = 0, left_ = 0;
  // What is written with the same stores, one after the other.
  struct Stretch {
    StoreChoice::Stores stores = StoreChoice::kPlain;
    uint64_t bytes = 0;
    Seconds time{0};
  } stretch_;
  std::vector<Cursor<Payload>> operands_;
  std::vector<Cursor<Pieces>> results_;
  std::vector<CrossCoreCopier*> copiers_;    // by result; the first needs none
  std::unique_ptr<char[]> partial_;          // of more than two operands
  std::unique_ptr<char[]> wide_;             // of operands that are combined in a wider type
  char* total_ = nullptr;                    // where those stay that are not narrowed
  std::vector<SquaredSum> operand_squares_;  // empty: they are not measured
  std::optional<SquaredSum> result_squares_;
};

}  // namespace kungfu
