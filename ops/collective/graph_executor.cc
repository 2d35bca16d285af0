#include "ops/collective/graph_executor.h"

#include <utility>

#include "ops/base/logging.h"
#include "ops/collective/chunk_run.h"

namespace kungfu {
namespace {

class GraphExecutor : public Mover {
 public:
  GraphExecutor(EventLoop* loop, Movement movement, int rank, Conversation* conversation)
      : loop_(loop), movement_(std::move(movement)), rank_(rank), conversation_(conversation) {}

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
      runs_.push_back(std::make_unique<ChunkRun>(movement_, movement_.chunks[next_++], rank_, conversation_,
                                                 [this](const Status& status) { Ended(status); }));
      runs_.back()->Start();
    }
    filling_ = false;
    if (ended_ == movement_.chunks.size()) Finish(OkStatus());
  }

  void Ended(const Status& status) {
    if (!status.ok()) return Finish(status);
    ++ended_;
    Fill();
  }

  void Finish(const Status& status) {
    if (finished_) return;
    finished_ = true;
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
