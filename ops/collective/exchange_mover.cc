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
      : loop_(loop), movement_(std::move(movement)), rank_(rank), conversation_(conversation) {
    for (const Chunk& chunk : movement_.chunks) {
      send_.Append(chunk.send.begin(), chunk.send.end());
      recv_.Append(chunk.recv.begin(), chunk.recv.end());
    }
    bytes_ = TotalSize(send_);
    arrived_.reset(new char[movement_.size * bytes_]);
  }

  void StartOnLoop(StatusCallback done) override {
    KF_DCHECK(loop_->InLoop());
    done_ = std::move(done);
    under_way_ = 2 * (movement_.size - 1);
    const uint32_t part = movement_.chunks[0].part;
    const auto ended = [this](const Status& status) { EndedOnLoop(status); };
    for (int other = 0; other < movement_.size; ++other) {
      if (other != rank_) conversation_->SendOnLoop(other, part, send_, ended);
    }
    sinks_.reserve(movement_.size);
    for (int other = 0; other < movement_.size; ++other) {
      sinks_.emplace_back(Pieces{{PlaceOf(other), bytes_}});
      if (other == rank_) continue;
      if (conversation_->ReceiveOnLoop(other, part, bytes_, &sinks_.back(), ended)) --under_way_;
    }
  }

  void StopOnLoop() override {
    done_ = nullptr;
    alive_.reset();
  }

 private:
  // A message was sent, or has come. The caller does not use this object afterwards, so this may be the end. A caller
  // that tells of an error may have more to tell.
  void EndedOnLoop(const Status& status) {
    KF_DCHECK(loop_->InLoop());
    if (!done_ || (status.ok() && --under_way_ > 0)) return;
    const StatusCallback done = std::exchange(done_, nullptr);
    if (status.ok()) {
      Reduce();
      return done(status);
    }
    alive_ = std::make_shared<int>();
    loop_->Post([done, alive = std::weak_ptr<int>(alive_), status] {
      if (!alive.expired()) done(status);
    });
  }

  char* PlaceOf(int rank) { return arrived_.get() + rank * bytes_; }

  // The sent data may lie in the place of the result: no peer reads them any more.
  void Reduce() {
    std::vector<Payload> operands;
    operands.reserve(movement_.size);
    for (int other = 0; other < movement_.size; ++other) {
      operands.push_back(other == rank_ ? send_ : Payload{{PlaceOf(other), bytes_}});
    }
    DirectReduction(std::move(operands), recv_, movement_.dtype, movement_.op, movement_.size).Advance(bytes_);
  }

  EventLoop* const loop_;
  const Movement movement_;
  const int rank_;
  Conversation* const conversation_;
  StatusCallback done_;         // null once its status is known, or is not wanted
  std::shared_ptr<int> alive_;  // from an error on

  Payload send_;
  Pieces recv_;
  uint64_t bytes_ = 0;
  std::unique_ptr<char[]> arrived_;  // by rank
  std::vector<CopySink> sinks_;
  int under_way_ = 0;  // messages
};

}  // namespace

std::unique_ptr<Mover> MakeExchangeMover(EventLoop* loop, Movement movement, int rank, Conversation* conversation) {
  return std::make_unique<ExchangeMover>(loop, std::move(movement), rank, conversation);
}

}  // namespace kungfu
