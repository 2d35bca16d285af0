#include "ops/collective/direct_mover.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <utility>

#include "ops/base/deadline.h"
#include "ops/base/logging.h"
#include "ops/collective/direct_buffers.h"
#include "ops/collective/direct_reduction.h"
#include "ops/plan/partition.h"

namespace kungfu {
namespace {

// The message by which a rank begins; behind the parts that the graphs use. Plain bytes: the host's peers are alike.
constexpr uint32_t kOfferPart = uint32_t{1} << 31;
struct Offer {
  uint32_t usable = 0;  // 0: take the graph executor; the rest means nothing then
  uint32_t slot = 0;
  uint64_t table = 0;     // where in the arena it is said where
  uint32_t sends = 0;     // the contribution lies, so many entries,
  uint32_t recvs = 0;     // and behind them the result
  uint64_t total = 0;     // bytes of either
  uint64_t finished = 0;  // the slot's counter; one more when this rank has finished
};

// How much is reduced between two looks at the clock, and how long the loop's other work may wait.
constexpr uint64_t kSlice = 128 << 10;
constexpr Seconds kTurn{200e-6};
// Where shares begin.
constexpr uint64_t kLine = 64;

// The pieces of all chunks, those that lie behind one another as one.
template <typename List, typename Get>
List Join(const std::vector<Chunk>& chunks, Get get) {
  List joined;
  for (const Chunk& chunk : chunks) {
    for (const auto& piece : get(chunk)) {
      if (!joined.empty() && joined.back().data + joined.back().size == piece.data) {
        joined.back().size += piece.size;
      } else {
        joined.push_back(piece);
      }
    }
  }
  return joined;
}

// The entries as they lie in an arena that is mapped here. Nothing if one lies outside, or they are not `total` bytes.
template <typename List>
std::optional<List> Mapped(const MutableBytes& arena, const DirectEntry* entries, uint32_t count, uint64_t total) {
  List pieces;
  uint64_t size = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const DirectEntry entry = entries[i];
    if (entry.size > arena.size || entry.offset > arena.size - entry.size) return std::nullopt;
    size += entry.size;
    pieces.push_back({arena.data + entry.offset, entry.size});
  }
  if (size != total) return std::nullopt;
  return pieces;
}

class DirectMover : public Mover, private DirectWaiter {
 public:
  DirectMover(EventLoop* loop, DirectGroup* group, Movement movement, Conversation* conversation,
              const MoverFactory& fallback, OperationCounters* counters)
      : loop_(loop),
        group_(group),
        movement_(std::move(movement)),
        conversation_(conversation),
        fallback_(fallback),
        counters_(counters),
        offers_(group->size()) {}

  ~DirectMover() override {
    group_->ForgetOnLoop(this);
    if (slot_ >= 0 && !buffers_) group_->ReturnSlotOnLoop(slot_);
  }

  void StartOnLoop(StatusCallback done) override {
    KF_DCHECK(loop_->InLoop());
    done_ = std::move(done);
    Prepare();
    Exchange();
  }

  std::vector<int> AwaitedOnLoop() const override {
    if (inner_) return inner_->AwaitedOnLoop();
    std::vector<int> ranks;
    for (int rank = 0; rank < group_->size(); ++rank) {
      if (reduced_ && !Finished(rank)) ranks.push_back(rank);
    }
    return ranks;
  }

 private:
  int rank() const { return group_->rank(); }
  Offer& mine() { return offers_[rank()]; }

  // What this rank offers: all zero if it cannot.
  void Prepare() {
    const auto send = Join<Payload>(movement_.chunks, [](const Chunk& chunk) { return chunk.send; });
    const auto recv = Join<Pieces>(movement_.chunks, [](const Chunk& chunk) { return chunk.recv; });
    slot_ = group_->TakeSlotOnLoop();
    if (slot_ < 0) return;
    buffers_ = DirectBuffers::Make(group_->arena(), send, recv, SizeOf(movement_.dtype));
    if (!buffers_) return;
    mine() = {1,
              static_cast<uint32_t>(slot_),
              buffers_->table(),
              buffers_->sends(),
              buffers_->recvs(),
              TotalSize(send),
              group_->FinishedOnLoop(rank(), slot_)};
  }

  void Exchange() {
    const auto offer = std::make_shared<const Offer>(mine());
    const char* bytes = reinterpret_cast<const char*>(offer.get());
    awaited_ = sending_ = group_->size() - 1;
    for (int other = 0; other < group_->size(); ++other) {
      if (other == rank()) continue;
      // What is sent lives as long as its callback, which may be longer than this.
      conversation_->SendOnLoop(other, kOfferPart, {{bytes, sizeof(Offer)}}, [this, offer](const Status& status) {
        if (!status.ok()) return Finish(status);
        if (--sending_ == 0 && falls_back_) FallBack();
      });
    }
    for (int other = 0; other < group_->size(); ++other) {
      if (other == rank()) continue;
      char* place = reinterpret_cast<char*>(&offers_[other]);
      sinks_.push_back(std::make_unique<CopySink>(Pieces{{place, sizeof(Offer)}}));
      const bool here = conversation_->ReceiveOnLoop(other, kOfferPart, sizeof(Offer), sinks_.back().get(),
                                                     [this](const Status& status) {
                                                       if (!status.ok()) return Finish(status);
                                                       if (--awaited_ == 0) Begin();
                                                     });
      if (here) --awaited_;
    }
    if (awaited_ == 0) Later([this] { Begin(); });
  }

  // All offers are here.
  void Begin() {
    falls_back_ = std::any_of(offers_.begin(), offers_.end(), [](const Offer& offer) { return offer.usable == 0; });
    // No callback of a message may come after the end.
    if (falls_back_ && sending_ > 0) return;
    if (falls_back_) return FallBack();
    std::vector<DirectReduction::Rank> ranks(group_->size());
    for (int rank = 0; rank < group_->size(); ++rank) {
      if (!See(rank, &ranks[rank])) {
        return Finish(InternalError("rank " + std::to_string(rank) + " offers memory that it does not have"));
      }
    }
    const uint64_t total = mine().total;
    const Range lines = EvenPart(total / kLine, group_->size(), rank());
    const uint64_t end = rank() + 1 == group_->size() ? total : lines.end * kLine;
    reduction_ = std::make_unique<DirectReduction>(std::move(ranks), rank(), lines.begin * kLine, end, movement_.dtype,
                                                   movement_.op);
    Reduce();
  }

  // Where a rank's data lie for this one; false if it says what cannot be.
  bool See(int rank, DirectReduction::Rank* data) {
    const Offer& offer = offers_[rank];
    const MutableBytes arena = rank == this->rank() ? group_->arena()->bytes() : group_->ArenaOf(rank);
    const uint64_t entries = uint64_t{offer.sends} + offer.recvs;
    if (offer.slot >= DirectGroup::kSlots || offer.total != mine().total || offer.table > arena.size ||
        entries > (arena.size - offer.table) / sizeof(DirectEntry) || offer.table % alignof(DirectEntry) != 0) {
      return false;
    }
    const auto* table = reinterpret_cast<const DirectEntry*>(arena.data + offer.table);
    auto send = Mapped<Payload>(arena, table, offer.sends, offer.total);
    auto recv = Mapped<Pieces>(arena, table + offer.sends, offer.recvs, offer.total);
    if (!send || !recv) return false;
    *data = {std::move(*send), std::move(*recv)};
    return true;
  }

  void FallBack() {
    if (buffers_) buffers_->Release();  // nobody has written: all have the same offers
    buffers_.reset();
    inner_ = fallback_(std::move(movement_), rank(), conversation_);
    inner_->StartOnLoop(std::move(done_));
  }

  void Reduce() {
    const Clock::time_point start = Clock::now();
    while (!reduction_->Advance(kSlice)) {
      if (Clock::now() - start > kTurn) return Later([this] { Reduce(); });
    }
    group_->FinishOnLoop(slot_);
    reduced_ = true;
    group_->WaitOnLoop(this);
  }

  bool Finished(int rank) const {
    if (rank == this->rank()) return true;
    return group_->FinishedOnLoop(rank, static_cast<int>(offers_[rank].slot)) != offers_[rank].finished;
  }

  // All have finished, and no callback of a message comes after the end.
  bool IsReadyOnLoop() override {
    while (next_ < group_->size() && Finished(next_)) ++next_;
    return next_ == group_->size() && sending_ == 0;
  }

  void GoOnOnLoop() override {
    buffers_->TakeResults();
    buffers_->Release();
    buffers_.reset();
    counters_->MovedDirectly();
    Finish(OkStatus());
  }

  void Later(std::function<void()> task) {
    loop_->Post([alive = std::weak_ptr<int>(alive_), task = std::move(task)] {
      if (!alive.expired()) task();
    });
  }

  void Finish(const Status& status) {
    if (!done_) return;
    Later([done = std::exchange(done_, nullptr), status] { done(status); });
  }

  EventLoop* const loop_;
  DirectGroup* const group_;
  Movement movement_;
  Conversation* const conversation_;
  const MoverFactory& fallback_;
  OperationCounters* const counters_;
  const std::shared_ptr<int> alive_ = std::make_shared<int>();
  StatusCallback done_;

  // A slot that others may still look at is never used again: there are many, and operations seldom fail.
  int slot_ = -1;
  std::unique_ptr<DirectBuffers> buffers_;
  std::vector<Offer> offers_;  // by rank
  std::vector<std::unique_ptr<Sink>> sinks_;
  int awaited_ = 0, sending_ = 0;  // messages
  bool falls_back_ = false;
  std::unique_ptr<DirectReduction> reduction_;
  bool reduced_ = false;
  int next_ = 0;  // whose counter is looked at
  std::unique_ptr<Mover> inner_;
};

}  // namespace

std::unique_ptr<Mover> MakeDirectMover(EventLoop* loop, DirectGroup* group, Movement movement,
                                       Conversation* conversation, const MoverFactory& fallback,
                                       OperationCounters* counters) {
  return std::make_unique<DirectMover>(loop, group, std::move(movement), conversation, fallback, counters);
}

}  // namespace kungfu
