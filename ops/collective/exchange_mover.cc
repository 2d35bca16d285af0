#include "ops/collective/exchange_mover.h"

#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ops/base/logging.h"
#include "ops/collective/contributions.h"
#include "ops/collective/notes.h"
#include "ops/router/copy_sink.h"

namespace kungfu {
namespace {

class ExchangeMover : public Mover, private DirectWaiter {
 public:
  ExchangeMover(EventLoop* loop, DirectGroup* group, Movement movement, int rank, Conversation* conversation)
      : loop_(loop),
        group_(group),
        movement_(std::move(movement)),
        rank_(rank),
        conversation_(conversation),
        told_(movement_.dtype, movement_.op, movement_.size, BytesOf(movement_)) {
    if (group_ && told_.bytes() <= Notes::kMost) notes_.emplace(group_);
    addresses_.resize(movement_.size);
    sinks_.reserve(movement_.size);
  }
  ~ExchangeMover() override { LookAway(); }

  void StartOnLoop(StatusCallback done) override {
    KF_DCHECK(loop_->InLoop());
    done_ = std::move(done);
    Begin();
    if (!noted_) {
      Say();
      Listen();
    }
    const bool is_over = IsOverOnLoop();
    if (noted_ && missing_ == 0) group_->RingOnLoop();
    if (is_over) return EndOnLoop();
    if (noted_) group_->WaitOnLoop(this);
  }

  void StopOnLoop() override {
    LookAway();
    done_ = nullptr;
    alive_.reset();
  }

  Movement* RepeatOnLoop() override { return &movement_; }

  std::vector<int> AwaitedOnLoop() const override {
    std::vector<int> ranks;
    for (int other = 0; other < movement_.size; ++other) {
      if (!IsHere(other)) ranks.push_back(other);
    }
    return ranks;
  }

 private:
  static uint64_t BytesOf(const Movement& movement) {
    uint64_t bytes = 0;
    for (const Chunk& chunk : movement.chunks) bytes += TotalSize(chunk.send);
    return bytes;
  }

  uint64_t number() const { return conversation_->id().number; }
  uint64_t step() const { return conversation_->signature().step; }

  // Nothing of what others say is here. This peer's data are, in the note if there may be one.
  void Begin() {
    char* const mine = told_.Of(rank_);
    char* to = mine;
    for (const Chunk& chunk : movement_.chunks) to = told_.Gather(chunk.send, to);
    here_ = uint32_t{1} << rank_;
    missing_ = movement_.size - 1;
    sending_ = 0;
    says_ = listens_ = differs_ = false;
    noted_ = notes_ && notes_->MayWriteOnLoop(number()) && losses_ == conversation_->LossesOnLoop() &&
             !conversation_->HasMessagesOnLoop();
    if (noted_) notes_->WriteOnLoop(number(), step(), mine, told_.bytes());
  }

  // By messages, to all.
  void Say() {
    says_ = true;
    Payload payload;
    if (told_.bytes() > 0) payload.push_back({told_.Of(rank_), told_.bytes()});
    if (notes_) payload.push_back({reinterpret_cast<const char*>(&notes_->address()), sizeof(Notes::Address)});
    for (int other = 0; other < movement_.size; ++other) {
      if (other == rank_) continue;
      ++sending_;
      const bool sent = conversation_->SendOnLoop(other, part(), payload, [this](const Status& status) {
        --sending_;
        ChangedOnLoop(status);
      });
      if (sent) --sending_;
    }
  }

  // For messages of all that are missing.
  void Listen() {
    listens_ = true;
    losses_ = conversation_->LossesOnLoop();
    sinks_.clear();
    for (int other = 0; other < movement_.size; ++other) {
      if (IsHere(other)) continue;
      Pieces to = {{told_.Of(other), told_.bytes()}};
      if (notes_) to.push_back({reinterpret_cast<char*>(&addresses_[other]), sizeof(Notes::Address)});
      sinks_.emplace_back(std::move(to));
      const uint64_t size = told_.bytes() + (notes_ ? sizeof(Notes::Address) : 0);
      const bool here =
          conversation_->ReceiveOnLoop(other, part(), size, &sinks_.back(), [this, other](const Status& status) {
            if (status.ok()) Heard(other);
            ChangedOnLoop(status);
          });
      if (here) Heard(other);
    }
  }

  uint32_t part() const { return movement_.chunks[0].part; }

  void Heard(int other) {
    if (IsHere(other)) return;
    if (notes_) notes_->MetOnLoop(other, addresses_[other]);
    Take(other);
  }

  bool IsHere(int other) const { return here_ >> other & 1; }
  void Take(int other) {
    here_ |= uint32_t{1} << other;
    --missing_;
  }

  bool IsOverOnLoop() {
    for (int other = 0; noted_ && missing_ > 0 && other < movement_.size; ++other) {
      const DirectNote* const note = IsHere(other) ? nullptr : notes_->FindOnLoop(other, number());
      if (!note) continue;
      if (note->step != step()) {
        differs_ = true;
      } else {
        std::memcpy(told_.Of(other), note->bytes, told_.bytes());
        Take(other);
      }
    }
    return missing_ == 0 && sending_ == 0;
  }

  // A message was sent, or has come. The caller does not use this object afterwards, so this may be the end. A caller
  // that tells of an error may have more to tell.
  void ChangedOnLoop(const Status& status) {
    KF_DCHECK(loop_->InLoop());
    if (!done_) return;
    if (!status.ok()) return FailOnLoop(status);
    if (missing_ == 0 && sending_ == 0) EndOnLoop();
  }

  // DirectWaiter. Someone speaks, who may not look at notes, or is at another step, which messages tell; or someone is
  // lost, and it is to be seen who.
  bool IsReadyOnLoop() override { return IsOverOnLoop() || Speaks() || Loses(); }
  bool Speaks() const { return !says_ && (differs_ || conversation_->HasMessagesOnLoop()); }
  bool Loses() const { return !listens_ && losses_ != conversation_->LossesOnLoop(); }
  void GoOnOnLoop() override {
    KF_DCHECK(loop_->InLoop());
    if (Speaks()) Say();
    if (!listens_ && (says_ || Loses())) Listen();
    if (IsOverOnLoop()) return EndOnLoop();
    group_->WaitOnLoop(this);
  }
  void LookAway() {
    if (group_) group_->ForgetOnLoop(this);
  }

  void EndOnLoop() {
    LookAway();
    if (notes_) notes_->EndedOnLoop(number());
    if (noted_ && !says_) CountTraffic();
    const StatusCallback done = std::exchange(done_, nullptr);
    const char* from = told_.Combine();
    for (const Chunk& chunk : movement_.chunks) from = told_.Scatter(from, chunk.recv);
    done(OkStatus());
  }

  void CountTraffic() {
    for (int other = 0; other < movement_.size; ++other) {
      if (other != rank_) conversation_->CountInMemoryOnLoop(other, told_.bytes());
    }
  }

  void FailOnLoop(const Status& status) {
    LookAway();
    alive_ = std::make_shared<int>();
    loop_->Post([done = std::exchange(done_, nullptr), alive = std::weak_ptr<int>(alive_), status] {
      if (!alive.expired()) done(status);
    });
  }

  EventLoop* const loop_;
  DirectGroup* const group_;
  Movement movement_;
  const int rank_;
  Conversation* const conversation_;
  StatusCallback done_;         // null once its status is known, or is not wanted
  std::shared_ptr<int> alive_;  // from an error on

  Contributions told_;
  std::optional<Notes> notes_;             // none: there are messages only
  std::vector<Notes::Address> addresses_;  // by rank: what messages have brought

  // Of the operation that runs.
  bool noted_ = false;  // there is a note of this peer
  bool says_ = false, listens_ = false;
  bool differs_ = false;  // a note is of another step
  uint64_t losses_ = 0;   // peers that were lost when it last listened
  uint32_t here_ = 0;     // a bit for each rank: what it has told is here
  int missing_ = 0;       // ranks
  int sending_ = 0;       // messages
  std::vector<CopySink> sinks_;
};

}  // namespace

std::unique_ptr<Mover> MakeExchangeMover(EventLoop* loop, DirectGroup* group, Movement movement, int rank,
                                         Conversation* conversation) {
  return std::make_unique<ExchangeMover>(loop, group, std::move(movement), rank, conversation);
}

}  // namespace kungfu
