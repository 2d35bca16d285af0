#include "ops/collective/chunk_pipeline.h"

#include <utility>

#include "ops/base/logging.h"

namespace kungfu {

ChunkPipeline::ChunkPipeline(EventLoop* loop, Movement movement) : loop_(loop), movement_(std::move(movement)) {}

ChunkPipeline::~ChunkPipeline() = default;

void ChunkPipeline::StartOnLoop(StatusCallback done) {
  KF_DCHECK(loop_->InLoop());
  done_ = std::move(done);
  Fill();
}

void ChunkPipeline::StopOnLoop() {
  KF_DCHECK(loop_->InLoop());
  finished_ = true;
  alive_.reset();
}

// Begins chunks until the window is full. Chunks may end while they begin.
void ChunkPipeline::Fill() {
  if (filling_) return;
  filling_ = true;
  while (!finished_ && next_ < movement_.chunks.size() && next_ - ended_ < kChunksUnderWay) {
    const Chunk& chunk = movement_.chunks[next_++];
    tasks_.push_back(MakeTask(chunk, [this, &chunk](const Status& status) { Ended(chunk, status); }));
    tasks_.back()->Start();
  }
  filling_ = false;
  if (ended_ == movement_.chunks.size()) Finish(OkStatus());
}

void ChunkPipeline::Ended(const Chunk& chunk, const Status& status) {
  if (!status.ok()) return Finish(status);
  ++ended_;
  OnChunkComplete(chunk);
  Fill();
}

void ChunkPipeline::Finish(const Status& status) {
  if (finished_) return;
  finished_ = true;
  if (status.ok()) OnComplete();
  loop_->Post([done = std::move(done_), alive = std::weak_ptr<int>(alive_), status] {
    if (!alive.expired()) done(status);
  });
}

}  // namespace kungfu
