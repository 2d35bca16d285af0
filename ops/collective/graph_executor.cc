#include "ops/collective/graph_executor.h"

#include <numeric>
#include <utility>
#include <vector>

#include "ops/base/logging.h"
#include "ops/collective/chunk_run.h"

namespace kungfu {
namespace {

class GraphExecutor : public Mover {
 public:
  GraphExecutor(EventLoop* loop, Movement movement, int rank, Conversation* conversation)
      : loop_(loop),
        movement_(std::move(movement)),
        rank_(rank),
        conversation_(conversation),
        received_(measures() ? movement_.chunks.size() : 0) {}

  void StartOnLoop(StatusCallback done) override {
    KF_DCHECK(loop_->InLoop());
    done_ = std::move(done);
    Fill();
  }

  void StopOnLoop() override {
    KF_DCHECK(loop_->InLoop());
    finished_ = true;
    alive_.reset();
  }

 private:
  // Begins chunks until the window is full. Chunks may finish while they begin.
  void Fill() {
    if (filling_) return;
    filling_ = true;
    while (!finished_ && next_ < movement_.chunks.size() && next_ - ended_ < kChunksUnderWay) {
      const Chunk& chunk = movement_.chunks[next_++];
      if (measures()) movement_.measurement->norms.sent += SquaredNorm(chunk.send, movement_.dtype);
      runs_.push_back(std::make_unique<ChunkRun>(movement_, chunk, rank_, conversation_,
                                                 [this, &chunk](const Status& status) { Ended(chunk, status); }));
      runs_.back()->Start();
    }
    filling_ = false;
    if (ended_ == movement_.chunks.size()) Finish(OkStatus());
  }

  bool measures() const { return movement_.measurement && movement_.measurement->wanted; }

  void Ended(const Chunk& chunk, const Status& status) {
    if (!status.ok()) return Finish(status);
    ++ended_;
    if (measures() && Concludes(chunk, rank_)) {
      received_[&chunk - movement_.chunks.data()] = SquaredNorm(AsPayload(chunk.recv), movement_.dtype);
    }
    Fill();
  }

  void Finish(const Status& status) {
    if (finished_) return;
    finished_ = true;
    // In the order of the chunks, not of their ends.
    if (measures()) movement_.measurement->norms.received = std::accumulate(received_.begin(), received_.end(), 0.0);
    loop_->Post([done = std::move(done_), alive = std::weak_ptr<int>(alive_), status] {
      if (!alive.expired()) done(status);
    });
  }

  EventLoop* const loop_;
  const Movement movement_;
  const int rank_;
  Conversation* const conversation_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();

  StatusCallback done_;
  std::vector<std::unique_ptr<ChunkRun>> runs_;
  std::vector<double> received_;  // by chunk: the squared norm of the result, if it was made here
  size_t next_ = 0;
  size_t ended_ = 0;
  bool filling_ = false;
  bool finished_ = false;
};

}  // namespace

std::unique_ptr<Mover> MakeGraphExecutor(EventLoop* loop, Movement movement, int rank, Conversation* conversation) {
  return std::make_unique<GraphExecutor>(loop, std::move(movement), rank, conversation);
}

}  // namespace kungfu
