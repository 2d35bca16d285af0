#include "ops/collective/chunk_run.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "ops/base/accumulate.h"
#include "ops/base/reduce.h"

namespace kungfu {
namespace {

const std::vector<int>& NoRanks() {
  static const auto* none = new std::vector<int>;
  return *none;
}

std::vector<int> Without(const std::vector<int>& ranks, const std::vector<int>& served) {
  std::vector<int> left;
  const auto is_served = [&](int rank) { return std::find(served.begin(), served.end(), rank) != served.end(); };
  std::remove_copy_if(ranks.begin(), ranks.end(), std::back_inserter(left), is_served);
  return left;
}

}  // namespace

ChunkRun::ChunkRun(const Movement& movement, const Chunk& chunk, int rank, Conversation* conversation,
                   StatusCallback done, Served served)
    : movement_(movement),
      chunk_(chunk),
      conversation_(conversation),
      done_(std::move(done)),
      children_(Without(chunk.reduce ? chunk.reduce->Predecessors(rank) : NoRanks(), served.ranks)),
      parent_(chunk.reduce ? chunk.reduce->Successors(rank) : NoRanks()),
      source_(chunk.broadcast ? chunk.broadcast->Predecessors(rank) : NoRanks()),
      targets_(Without(chunk.broadcast ? chunk.broadcast->Successors(rank) : NoRanks(), served.ranks)),
      size_(TotalSize(chunk.recv.empty() ? chunk.send : AsPayload(chunk.recv))),
      wide_(AccumulatorOf(movement.dtype, movement.op)),
      accumulator_(std::move(served.total)) {}

void ChunkRun::Start() {
  if (wide_ != movement_.dtype && !accumulator_ && !children_.empty()) {
    accumulator_ = std::make_unique<Accumulator>(chunk_.send, movement_.dtype, movement_.op);
  }
  ReduceNext();
}

// The part that this rank has reduced so far.
Payload ChunkRun::Partial() const {
  if (accumulator_) return accumulator_->bytes();
  return next_child_ == 0 ? chunk_.send : AsPayload(chunk_.recv);
}

void ChunkRun::ReduceNext() {
  while (next_child_ < children_.size()) {
    const int child = children_[next_child_];
    const bool arrives_wide = wide_ != movement_.dtype && !chunk_.reduce->Predecessors(child).empty();
    const uint64_t size = arrives_wide ? size_ / SizeOf(movement_.dtype) * SizeOf(wide_) : size_;
    if (accumulator_) {
      sink_ = accumulator_->MakeSink(arrives_wide);
    } else {
      sink_ = std::make_unique<ReduceSink>(Partial(), chunk_.recv, movement_.dtype, movement_.op);
    }
    const bool here =
        conversation_->ReceiveOnLoop(child, reduce_part(), size, sink_.get(), [this](const Status& status) {
          if (!status.ok()) return Finish(status);
          ++next_child_;
          ReduceNext();
        });
    if (!here) return;
    ++next_child_;
  }
  EndReduce();
}

void ChunkRun::EndReduce() {
  if (!parent_.empty()) {
    const bool sent = conversation_->SendOnLoop(parent_[0], reduce_part(), Partial(), [this](const Status& status) {
      accumulator_ = nullptr;
      Sent(status);
    });
    if (sent) {
      accumulator_ = nullptr;
    } else {
      ++pending_;
    }
  } else if (source_.empty() && !chunk_.recv.empty()) {
    Conclude();
  }
  BeginBroadcast();
}

// At the root of this chunk: from here on the result lies in its place.
void ChunkRun::Conclude() {
  if (accumulator_) {
    accumulator_->Finish(chunk_.recv, movement_.size);
    accumulator_ = nullptr;
    return;
  }
  if (next_child_ == 0) Copy(chunk_.send, chunk_.recv);
  if (chunk_.reduce && movement_.op == ReduceOp::kMean) {
    for (const MutableBytes& piece : chunk_.recv) {
      Divide(piece.data, piece.size / SizeOf(movement_.dtype), movement_.dtype, movement_.size);
    }
  }
}

void ChunkRun::BeginBroadcast() {
  if (source_.empty()) return Broadcast();
  sink_ = std::make_unique<CopySink>(chunk_.recv);
  const bool here =
      conversation_->ReceiveOnLoop(source_[0], broadcast_part(), size_, sink_.get(), [this](const Status& status) {
        if (!status.ok()) return Finish(status);
        Broadcast();
      });
  if (here) Broadcast();
}

void ChunkRun::Broadcast() {
  const Payload result = chunk_.recv.empty() ? chunk_.send : AsPayload(chunk_.recv);
  for (const int target : targets_) {
    const bool sent =
        conversation_->SendOnLoop(target, broadcast_part(), result, [this](const Status& status) { Sent(status); });
    if (!sent) ++pending_;
  }
  broadcast_ = true;
  if (pending_ == 0) Finish(OkStatus());
}

void ChunkRun::Sent(const Status& status) {
  --pending_;
  if (!status.ok()) return Finish(status);
  if (broadcast_ && pending_ == 0) Finish(OkStatus());
}

void ChunkRun::Finish(const Status& status) {
  if (finished_) return;
  finished_ = true;
  done_(status);
}

}  // namespace kungfu
