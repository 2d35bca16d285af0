#include "ops/collective/direct_reduction.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/base/reduce.h"

namespace kungfu {
namespace {

// What two operands and two results of this size need fits the nearest cache.
constexpr size_t kBlock = 8 << 10;

}  // namespace

template <typename List>
void DirectReduction::Cursor<List>::Advance(uint64_t bytes) {
  while (bytes > 0) {
    const uint64_t step = std::min<uint64_t>(bytes, left());
    offset += step;
    bytes -= step;
    while (piece < list->size() && left() == 0) {
      ++piece;
      offset = 0;
    }
  }
}

DirectReduction::DirectReduction(std::vector<Rank> ranks, int mine, uint64_t begin, uint64_t end, DType dtype,
                                 ReduceOp op)
    : ranks_(std::move(ranks)),
      mine_(mine),
      dtype_(dtype),
      op_(op),
      left_(end - begin),
      partial_(ranks_.size() > 2 ? new char[kBlock] : nullptr) {
  if (left_ == 0) return;
  for (const Rank& rank : ranks_) {
    sends_.push_back({&rank.send, 0, 0});
    recvs_.push_back({&rank.recv, 0, 0});
    sends_.back().Advance(begin);
    recvs_.back().Advance(begin);
  }
}

DirectReduction::~DirectReduction() = default;

bool DirectReduction::Advance(uint64_t most) {
  for (uint64_t done = 0; left_ > 0 && done < most;) {
    size_t bytes = std::min<uint64_t>(left_, kBlock);
    for (const auto& send : sends_) bytes = std::min(bytes, send.left());
    for (const auto& recv : recvs_) bytes = std::min(bytes, recv.left());
    Block(bytes);
    left_ -= bytes;
    done += bytes;
    for (auto& send : sends_) send.Advance(bytes);
    for (auto& recv : recvs_) recv.Advance(bytes);
  }
  return left_ == 0;
}

// Nothing is written to a rank's memory before all operands have been read: it may be one of them.
void DirectReduction::Block(size_t bytes) {
  const size_t count = bytes / SizeOf(dtype_);
  char* const result = recvs_[mine_].data();
  const char* left = sends_[0].data();
  for (size_t rank = 1; rank < ranks_.size(); ++rank) {
    char* const to = rank + 1 == ranks_.size() ? result : partial_.get();
    Reduce(to, left, sends_[rank].data(), count, dtype_, op_);
    left = to;
  }
  if (op_ == ReduceOp::kMean) Divide(result, count, dtype_, static_cast<int>(ranks_.size()));
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (static_cast<int>(rank) != mine_) std::memcpy(recvs_[rank].data(), result, bytes);
  }
}

}  // namespace kungfu
