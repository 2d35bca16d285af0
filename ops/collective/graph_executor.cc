#include "ops/collective/graph_executor.h"

#include <numeric>
#include <utility>
#include <vector>

#include "ops/collective/chunk_pipeline.h"
#include "ops/collective/chunk_run.h"

namespace kungfu {
namespace {

class GraphExecutor : public ChunkPipeline {
 public:
  GraphExecutor(EventLoop* loop, Movement moved, int rank, Conversation* conversation)
      : ChunkPipeline(loop, std::move(moved)),
        rank_(rank),
        conversation_(conversation),
        received_(measures() ? movement().chunks.size() : 0) {}

 private:
  std::unique_ptr<ChunkTask> MakeTask(const Chunk& chunk, StatusCallback ended) override {
    if (measures()) movement().measurement->norms.sent += SquaredNorm(chunk.send, movement().dtype);
    return std::make_unique<ChunkRun>(movement(), chunk, rank_, conversation_, std::move(ended));
  }

  void OnChunkComplete(const Chunk& chunk) override {
    if (!measures() || !Concludes(chunk, rank_)) return;
    received_[&chunk - movement().chunks.data()] = SquaredNorm(AsPayload(chunk.recv), movement().dtype);
  }

  // In the order of the chunks, not of their ends.
  void OnComplete() override {
    if (measures()) movement().measurement->norms.received = std::accumulate(received_.begin(), received_.end(), 0.0);
  }

  bool measures() const { return movement().measurement && movement().measurement->wanted; }

  const int rank_;
  Conversation* const conversation_;
  std::vector<double> received_;  // by chunk: the squared norm of the result, if it was made here
};

}  // namespace

std::unique_ptr<Mover> MakeGraphExecutor(EventLoop* loop, Movement movement, int rank, Conversation* conversation) {
  return std::make_unique<GraphExecutor>(loop, std::move(movement), rank, conversation);
}

}  // namespace kungfu
