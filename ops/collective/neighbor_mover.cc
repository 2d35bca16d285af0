#include "ops/collective/neighbor_mover.h"

#include <optional>
#include <utility>
#include <vector>

#include "ops/collective/chunk_pipeline.h"
#include "ops/collective/weighted_sum.h"

namespace kungfu {
namespace {

class NeighborRun : public ChunkTask {
 public:
  NeighborRun(const Movement& movement, const Chunk& chunk, Conversation* conversation, StatusCallback ended)
      : mixing_(*movement.mixing),
        dtype_(movement.dtype),
        chunk_(chunk),
        conversation_(conversation),
        ended_(std::move(ended)),
        size_(TotalSize(chunk.send)) {}

  void Start() override {
    for (const Mixing::Neighbor& target : mixing_.targets) {
      const bool sent =
          conversation_->SendOnLoop(target.rank, chunk_.part, PayloadFor(target), [this](const Status& status) {
            --sends_;
            status.ok() ? EndIfComplete() : End(status);
          });
      if (!sent) ++sends_;
    }
    sum_.emplace(chunk_.send, mixing_.self, chunk_.recv, dtype_);
    AddNext();
  }

 private:
  Payload PayloadFor(const Mixing::Neighbor& target) {
    if (target.weight == 1) return chunk_.send;
    scaled_.emplace_back(new char[size_]);
    const Pieces copy = {{scaled_.back().get(), size_}};
    WeightedSum(chunk_.send, target.weight, copy, dtype_).Finish();
    return AsPayload(copy);
  }

  void AddNext() {
    while (added_ < mixing_.sources.size()) {
      const Mixing::Neighbor& source = mixing_.sources[added_];
      sink_ = sum_->MakeSink(source.weight);
      const bool here =
          conversation_->ReceiveOnLoop(source.rank, chunk_.part, size_, sink_.get(), [this](const Status& status) {
            if (!status.ok()) return End(status);
            ++added_;
            AddNext();
          });
      if (!here) return;
      ++added_;
    }
    sum_->Finish();
    EndIfComplete();
  }

  void EndIfComplete() {
    if (sends_ > 0 || added_ < mixing_.sources.size()) return;
    scaled_.clear();
    End(OkStatus());
  }

  void End(const Status& status) {
    if (ended_) std::exchange(ended_, nullptr)(status);
  }

  const Mixing& mixing_;
  const DType dtype_;
  const Chunk& chunk_;
  Conversation* const conversation_;
  StatusCallback ended_;  // null once it was called
  const uint64_t size_;   // bytes
  std::optional<WeightedSum> sum_;
  std::vector<std::unique_ptr<char[]>> scaled_;
  std::unique_ptr<Sink> sink_;
  size_t added_ = 0;  // sources
  int sends_ = 0;     // under way
};

class NeighborMover : public ChunkPipeline {
 public:
  NeighborMover(EventLoop* loop, Movement moved, Conversation* conversation)
      : ChunkPipeline(loop, std::move(moved)), conversation_(conversation) {}

 private:
  std::unique_ptr<ChunkTask> MakeTask(const Chunk& chunk, StatusCallback ended) override {
    return std::make_unique<NeighborRun>(movement(), chunk, conversation_, std::move(ended));
  }

  Conversation* const conversation_;
};

}  // namespace

std::unique_ptr<Mover> MakeNeighborMover(EventLoop* loop, Movement movement, Conversation* conversation) {
  return std::make_unique<NeighborMover>(loop, std::move(movement), conversation);
}

}  // namespace kungfu
