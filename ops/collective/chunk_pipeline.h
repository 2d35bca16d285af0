// The common part of movers that take each chunk on its way alone, and have several of them under way at once.

#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ops/collective/mover.h"
#include "ops/transport/event_loop.h"

namespace kungfu {

// How many chunks are under way at once. All ranks begin theirs in the same order, so the oldest unfinished one is
// under way everywhere and the pipeline cannot lock up.
inline constexpr size_t kChunksUnderWay = 32;

// One chunk on its way on this rank. Lives on the event loop's thread, and as long as a mover.
class ChunkTask {
 public:
  virtual ~ChunkTask() = default;
  // Begins it, once. It may end before the call returns: if all messages are here already, a turn of the loop for each
  // chunk would cost more than the chunk.
  virtual void Start() = 0;
};

class ChunkPipeline : public Mover {
 public:
  ChunkPipeline(EventLoop* loop, Movement movement);
  ~ChunkPipeline() override;

  void StartOnLoop(StatusCallback done) override;
  void StopOnLoop() override;

 protected:
  // `ended` is to be called once.
  virtual std::unique_ptr<ChunkTask> MakeTask(const Chunk& chunk, StatusCallback ended) = 0;
  // A chunk is complete; all are.
  virtual void OnChunkComplete(const Chunk&) {}
  virtual void OnComplete() {}

  const Movement& movement() const { return movement_; }

 private:
  void Fill();
  void Ended(const Chunk& chunk, const Status& status);
  void Finish(const Status& status);

  EventLoop* const loop_;
  const Movement movement_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();

  StatusCallback done_;
  std::vector<std::unique_ptr<ChunkTask>> tasks_;
  size_t next_ = 0;
  size_t ended_ = 0;
  bool filling_ = false;
  bool finished_ = false;
};

}  // namespace kungfu
