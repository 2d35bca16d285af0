#include "ops/collective/exchange_mover.h"

#include <memory>
#include <utility>
#include <vector>

#include "ops/base/logging.h"
#include "ops/collective/direct_reduction.h"
#include "ops/router/copy_sink.h"

namespace kungfu {
namespace {

class ExchangeMover : public Mover {
 public:
  ExchangeMover(EventLoop* loop, Movement movement, int rank, Conversation* conversation)
      : loop_(loop),
        movement_(std::move(movement)),
        rank_(rank),
        conversation_(conversation),
        reduction_(movement_.dtype, movement_.op, movement_.size) {
    for (const Chunk& chunk : movement_.chunks) bytes_ += TotalSize(chunk.send);
    arrived_.reset(new char[movement_.size * bytes_]);
    sinks_.reserve(movement_.size);
  }

  void StartOnLoop(StatusCallback done) override {
    KF_DCHECK(loop_->InLoop());
    done_ = std::move(done);
    Gather();
    under_way_ = 2 * (movement_.size - 1);
    const uint32_t part = movement_.chunks[0].part;
    const auto ended = [this](const Status& status) { EndedOnLoop(status); };
    for (int other = 0; other < movement_.size; ++other) {
      if (other != rank_ && conversation_->SendOnLoop(other, part, send_, ended)) --under_way_;
    }
    for (int other = 0; other < movement_.size; ++other) {
      if (other == rank_) continue;
      sinks_.emplace_back(Pieces{{PlaceOf(other), bytes_}});
      if (conversation_->ReceiveOnLoop(other, part, bytes_, &sinks_.back(), ended)) --under_way_;
    }
    if (under_way_ == 0) EndOnLoop();
  }

  void StopOnLoop() override {
    done_ = nullptr;
    alive_.reset();
  }

  Movement* RepeatOnLoop() override { return &movement_; }

 private:
  // The pieces of all chunks.
  void Gather() {
    send_.clear();
    recv_.clear();
    sinks_.clear();
    for (const Chunk& chunk : movement_.chunks) {
      send_.Append(chunk.send.begin(), chunk.send.end());
      recv_.Append(chunk.recv.begin(), chunk.recv.end());
    }
  }

  // A message was sent, or has come. The caller does not use this object afterwards, so this may be the end. A caller
  // that tells of an error may have more to tell.
  void EndedOnLoop(const Status& status) {
    KF_DCHECK(loop_->InLoop());
    if (!done_) return;
    if (!status.ok()) return FailOnLoop(status);
    if (--under_way_ == 0) EndOnLoop();
  }

  void EndOnLoop() {
    const StatusCallback done = std::exchange(done_, nullptr);
    Reduce();
    done(OkStatus());
  }

  void FailOnLoop(const Status& status) {
    alive_ = std::make_shared<int>();
    loop_->Post([done = std::exchange(done_, nullptr), alive = std::weak_ptr<int>(alive_), status] {
      if (!alive.expired()) done(status);
    });
  }

  char* PlaceOf(int rank) { return arrived_.get() + rank * bytes_; }

  // The sent data may lie in the place of the result: no peer reads them any more.
  void Reduce() {
    reduction_.Clear();
    for (int other = 0; other < movement_.size; ++other) {
      reduction_.AddOperand(other == rank_ ? send_ : Payload{{PlaceOf(other), bytes_}});
    }
    reduction_.AddResult(recv_);
    reduction_.Advance(bytes_);
  }

  EventLoop* const loop_;
  Movement movement_;
  const int rank_;
  Conversation* const conversation_;
  StatusCallback done_;         // null once its status is known, or is not wanted
  std::shared_ptr<int> alive_;  // from an error on

  uint64_t bytes_ = 0;
  std::unique_ptr<char[]> arrived_;  // by rank
  DirectReduction reduction_;
  int under_way_ = 0;  // messages

  // Of the operation that runs.
  Payload send_;
  Pieces recv_;
  std::vector<CopySink> sinks_;
};

}  // namespace

std::unique_ptr<Mover> MakeExchangeMover(EventLoop* loop, Movement movement, int rank, Conversation* conversation) {
  return std::make_unique<ExchangeMover>(loop, std::move(movement), rank, conversation);
}

}  // namespace kungfu
