#include "ops/collective/graph_executor.h"

#include <utility>

#include "ops/base/logging.h"
#include "ops/base/reduce.h"

namespace kungfu {
namespace {

// How many chunks are under way at once. All ranks begin them in the same order, so the oldest unfinished one is
// under way everywhere and the pipeline cannot lock up.
constexpr size_t kWindow = 32;

const std::vector<int>& NoRanks() {
  static const auto* none = new std::vector<int>;
  return *none;
}

// One chunk on this rank. Calls back into itself from the conversation; lives as long as its executor.
class ChunkRun {
 public:
  ChunkRun(const Movement& movement, const Chunk& chunk, int rank, Conversation* conversation,
           std::function<void(const Status&)> done)
      : movement_(movement),
        chunk_(chunk),
        conversation_(conversation),
        done_(std::move(done)),
        children_(chunk.reduce ? chunk.reduce->Predecessors(rank) : NoRanks()),
        parent_(chunk.reduce ? chunk.reduce->Successors(rank) : NoRanks()),
        source_(chunk.broadcast ? chunk.broadcast->Predecessors(rank) : NoRanks()),
        targets_(chunk.broadcast ? chunk.broadcast->Successors(rank) : NoRanks()),
        size_(TotalSize(chunk.recv.empty() ? chunk.send : AsPayload(chunk.recv))) {}

  // May finish, and call `done`, before it returns.
  void Start() { ReduceNext(); }

 private:
  uint32_t reduce_part() const { return chunk_.part; }
  uint32_t broadcast_part() const { return chunk_.part + 1; }

  // What this rank has reduced so far.
  Payload Partial() const { return next_child_ == 0 ? chunk_.send : AsPayload(chunk_.recv); }

  void ReduceNext() {
    while (next_child_ < children_.size()) {
      sink_ = std::make_unique<ReduceSink>(Partial(), chunk_.recv, movement_.dtype, movement_.op);
      const int child = children_[next_child_];
      const bool here =
          conversation_->ReceiveOnLoop(child, reduce_part(), size_, sink_.get(), [this](const Status& status) {
            if (!status.ok()) return Finish(status);
            ++next_child_;
            ReduceNext();
          });
      if (!here) return;
      ++next_child_;
    }
    EndReduce();
  }

  void EndReduce() {
    if (!parent_.empty()) {
      ++pending_;
      conversation_->SendOnLoop(parent_[0], reduce_part(), Partial(), [this](const Status& status) { Sent(status); });
    } else if (source_.empty() && !chunk_.recv.empty()) {
      // The root of this chunk: from here on the result lies in its place.
      if (next_child_ == 0) Copy(chunk_.send, chunk_.recv);
      if (chunk_.reduce && movement_.op == ReduceOp::kMean) {
        for (const MutableBytes& piece : chunk_.recv) {
          Divide(piece.data, piece.size / SizeOf(movement_.dtype), movement_.dtype, movement_.size);
        }
      }
    }
    BeginBroadcast();
  }

  void BeginBroadcast() {
    if (source_.empty()) return Broadcast();
    sink_ = std::make_unique<CopySink>(chunk_.recv);
    const bool here =
        conversation_->ReceiveOnLoop(source_[0], broadcast_part(), size_, sink_.get(), [this](const Status& status) {
          if (!status.ok()) return Finish(status);
          Broadcast();
        });
    if (here) Broadcast();
  }

  void Broadcast() {
    const Payload result = chunk_.recv.empty() ? chunk_.send : AsPayload(chunk_.recv);
    pending_ += static_cast<int>(targets_.size());
    for (const int target : targets_) {
      conversation_->SendOnLoop(target, broadcast_part(), result, [this](const Status& status) { Sent(status); });
    }
    broadcast_ = true;
    if (pending_ == 0) Finish(OkStatus());
  }

  void Sent(const Status& status) {
    --pending_;
    if (!status.ok()) return Finish(status);
    if (broadcast_ && pending_ == 0) Finish(OkStatus());
  }

  void Finish(const Status& status) {
    if (finished_) return;
    finished_ = true;
    done_(status);
  }

  const Movement& movement_;
  const Chunk& chunk_;
  Conversation* const conversation_;
  const std::function<void(const Status&)> done_;
  const std::vector<int>& children_;
  const std::vector<int>& parent_;
  const std::vector<int>& source_;
  const std::vector<int>& targets_;
  const uint64_t size_;

  std::unique_ptr<Sink> sink_;
  size_t next_child_ = 0;
  int pending_ = 0;         // sends
  bool broadcast_ = false;  // the last phase has begun
  bool finished_ = false;
};

class GraphExecutor : public Mover {
 public:
  GraphExecutor(EventLoop* loop, Movement movement, int rank, Conversation* conversation)
      : loop_(loop), movement_(std::move(movement)), rank_(rank), conversation_(conversation) {}

  void StartOnLoop(StatusCallback done) override {
    KF_DCHECK(loop_->InLoop());
    done_ = std::move(done);
    Fill();
  }

 private:
  // Begins chunks until the window is full. Chunks may finish while they begin.
  void Fill() {
    if (filling_) return;
    filling_ = true;
    while (!finished_ && next_ < movement_.chunks.size() && next_ - ended_ < kWindow) {
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
  const std::shared_ptr<int> alive_ = std::make_shared<int>();

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
