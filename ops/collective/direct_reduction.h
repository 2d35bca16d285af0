// The arithmetic of the direct mover: one rank's share of an all-reduce, read from where all ranks have their data and
// written to where all of them want the result, in blocks that stay in the nearest caches.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/base/bytes.h"
#include "ops/base/dtype.h"
#include "ops/collective/pieces.h"

namespace kungfu {

// Operands are combined in rank order, so the result does not depend on who computes it. The same memory may be sent
// and received by a rank.
class DirectReduction {
 public:
  struct Rank {
    Payload send;
    Pieces recv;
  };
  // Bytes `begin` to `end` of the ranks' arrays, which have equal sizes. `mine`: the rank that computes. Boundaries of
  // pieces and of the range lie between elements.
  DirectReduction(std::vector<Rank> ranks, int mine, uint64_t begin, uint64_t end, DType dtype, ReduceOp op);
  ~DirectReduction();

  // Goes on until about `most` bytes are reduced. Returns whether all are.
  bool Advance(uint64_t most);

 private:
  // A place in a list of pieces.
  template <typename List>
  struct Cursor {
    const List* list = nullptr;
    size_t piece = 0;
    size_t offset = 0;

    auto* data() const { return (*list)[piece].data + offset; }
    size_t left() const { return (*list)[piece].size - offset; }
    void Advance(uint64_t bytes);
  };

  void Block(size_t bytes);

  const std::vector<Rank> ranks_;
  const int mine_;
  const DType dtype_;
  const ReduceOp op_;
  uint64_t left_;
  std::vector<Cursor<Payload>> sends_;
  std::vector<Cursor<Pieces>> recvs_;
  std::unique_ptr<char[]> partial_;  // of more than two operands
};

}  // namespace kungfu
