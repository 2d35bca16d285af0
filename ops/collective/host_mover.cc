#include "ops/collective/host_mover.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "ops/base/logging.h"

namespace kungfu {
namespace {

// The part numbers of the messages: behind the parts that the graphs use.
constexpr uint32_t kOfferPart = uint32_t{1} << 31;

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

// Of the first `total` bytes.
uint64_t SizeWithin(uint64_t total, const ShortList<Range>& ranges) {
  uint64_t size = 0;
  for (const Range& range : ranges) size += range.begin < total ? range.size() : 0;
  return size;
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

}  // namespace

HostMover::HostMover(EventLoop* loop, DirectGroup* group, Movement movement, Conversation* conversation,
                     const MoverFactory& fallback, OperationCounters* counters)
    : loop_(loop),
      group_(group),
      movement_(std::move(movement)),
      conversation_(conversation),
      fallback_(fallback),
      counters_(counters),
      buffers_(group->arena()),
      data_(group->size()),
      offers_(group->size()) {
  sinks_.reserve(group->size());
}

HostMover::~HostMover() {
  group_->ForgetOnLoop(this);
  ReturnSlot();
}

void HostMover::ReturnSlot() {
  if (slot_ < 0) return;
  if (!buffers_.placed()) {
    group_->ReturnSlotOnLoop(slot_);
  } else if (finished_) {
    group_->TakeBackOnLoop(slot_);  // before the memory is withdrawn
  }
}

Movement* HostMover::RepeatOnLoop() {
  KF_DCHECK(loop_->InLoop());
  if (inner_ || !MayRepeat()) return nullptr;
  ReturnSlot();
  slot_ = -1;
  offers_.assign(group_->size(), {});
  sinks_.clear();
  finished_ = false;
  next_ = 0;
  return &movement_;
}

void HostMover::StartOnLoop(StatusCallback done) {
  KF_DCHECK(loop_->InLoop());
  done_ = std::move(done);
  Prepare();
  Exchange();
}

void HostMover::StopOnLoop() {
  KF_DCHECK(loop_->InLoop());
  if (inner_) inner_->StopOnLoop();
  group_->ForgetOnLoop(this);
  alive_.reset();
}

std::vector<int> HostMover::AwaitedOnLoop() const {
  KF_DCHECK(loop_->InLoop());
  if (inner_) return inner_->AwaitedOnLoop();
  std::vector<int> ranks;
  for (int place = 0; place < group_->size(); ++place) {
    if (finished_ && !Finished(place)) ranks.push_back(group_->ranks()[place]);
  }
  return ranks;
}

// The offer of this peer: all zero if it has none.
void HostMover::Prepare() {
  Data& here = data_[place()];
  here = {Join<Payload>(movement_.chunks, [](const Chunk& chunk) { return chunk.send; }),
          Join<Pieces>(movement_.chunks, [](const Chunk& chunk) { return chunk.recv; })};
  const Pieces board = Board();
  board_size_ = TotalSize(AsPayload(board));
  here.recv.Append(board.begin(), board.end());
  slot_ = group_->TakeSlotOnLoop();
  if (slot_ < 0) return;
  const uint64_t total = TotalSize(here.send);
  const ShortList<Range> own = Own(total);
  if (!buffers_.Place(CopierTo(place()), here.send, here.recv, own, SizeOf(movement_.dtype))) return;
  mine() = {1,
            movement_.measurement && movement_.measurement->wanted,
            static_cast<uint32_t>(slot_),
            buffers_.table(),
            buffers_.sends(),
            buffers_.recvs(),
            total,
            SizeWithin(total, own),
            group_->FinishedOnLoop(place(), slot_)};
}

void HostMover::Exchange() {
  const Payload offer = {{reinterpret_cast<const char*>(&mine()), sizeof(Offer)}};
  awaited_ = sending_ = group_->size() - 1;
  for (int other = 0; other < group_->size(); ++other) {
    if (other == place()) continue;
    const bool sent =
        conversation_->SendOnLoop(group_->ranks()[other], kOfferPart, offer, [this](const Status& status) {
          if (!status.ok()) return EndOnLoop(status);
          if (--sending_ == 0 && falls_back_) FallBack();
        });
    if (sent) --sending_;
  }
  for (int other = 0; other < group_->size(); ++other) {
    if (other == place()) continue;
    char* place = reinterpret_cast<char*>(&offers_[other]);
    sinks_.emplace_back(Pieces{{place, sizeof(Offer)}});
    const bool here = conversation_->ReceiveOnLoop(group_->ranks()[other], kOfferPart, sizeof(Offer), &sinks_.back(),
                                                   [this](const Status& status) {
                                                     if (!status.ok()) return EndOnLoop(status);
                                                     if (--awaited_ == 0) OffersAreHere();
                                                   });
    if (here) --awaited_;
  }
  if (awaited_ == 0) LaterOnLoop([this] { OffersAreHere(); });
}

void HostMover::OffersAreHere() {
  if (ended()) return;
  falls_back_ = std::any_of(offers_.begin(), offers_.end(), [](const Offer& offer) { return offer.usable == 0; });
  // No callback of a message may come after the end.
  if (falls_back_ && sending_ > 0) return;
  if (falls_back_) return FallBack();
  measures_ = movement_.measurement &&
              std::all_of(offers_.begin(), offers_.end(), [](const Offer& offer) { return offer.wants_norms != 0; });
  for (int place = 0; place < group_->size(); ++place) {
    if (place == this->place() || See(place)) continue;
    return EndOnLoop(
        InternalError("rank " + std::to_string(group_->ranks()[place]) + " offers memory that it does not have"));
  }
  BeginOnLoop();
}

// The places of another peer's data; false if its offer is impossible.
bool HostMover::See(int place) {
  const Offer& offer = offers_[place];
  const uint64_t total = offers_[this->place()].total;
  const MutableBytes arena = group_->ArenaOf(place);
  const uint64_t entries = uint64_t{offer.sends} + offer.recvs;
  if (offer.slot >= DirectGroup::kSlots || offer.total != total || offer.share > total || offer.table > arena.size ||
      entries > (arena.size - offer.table) / sizeof(DirectEntry) || offer.table % alignof(DirectEntry) != 0) {
    return false;
  }
  const auto* table = reinterpret_cast<const DirectEntry*>(arena.data + offer.table);
  auto send = Mapped<Payload>(arena, table, offer.sends, total);
  auto recv = Mapped<Pieces>(arena, table + offer.sends, offer.recvs, total + board_size_);
  if (!send || !recv) return false;
  data_[place] = {std::move(*send), std::move(*recv)};
  return true;
}

void HostMover::FallBack() {
  buffers_.Release();  // no peer has written: all have the same offers
  inner_ = fallback_(std::move(movement_), rank(), conversation_);
  inner_->StartOnLoop(std::exchange(done_, nullptr));
}

void HostMover::FinishOnLoop() {
  KF_DCHECK(loop_->InLoop());
  if (finished_ || ended()) return;
  finished_ = true;
  group_->FinishOnLoop(slot_);
  group_->WaitOnLoop(this);
}

bool HostMover::Finished(int place) const {
  if (place == this->place()) return true;
  return group_->FinishedOnLoop(place, static_cast<int>(offers_[place].slot)) != offers_[place].finished;
}

// All have finished, and no callback of a message comes after the end.
bool HostMover::IsReadyOnLoop() {
  KF_DCHECK(loop_->InLoop());
  while (next_ < group_->size() && Finished(next_)) ++next_;
  return next_ == group_->size() && sending_ == 0;
}

void HostMover::GoOnOnLoop() {
  KF_DCHECK(loop_->InLoop());
  buffers_.TakeResults();
  buffers_.Release();
  ConcludeOnLoop();
  CountTraffic();
  counters_->MovedDirectly();
  if (const StatusCallback done = std::exchange(done_, nullptr)) done(OkStatus());
}

void HostMover::CountTraffic() {
  for (int other = 0; other < group_->size(); ++other) {
    if (other == place()) continue;
    conversation_->CountInMemoryOnLoop(group_->ranks()[other], mine().share + offers_[other].share);
  }
}

void HostMover::LaterOnLoop(std::function<void()> task) {
  KF_DCHECK(loop_->InLoop());
  loop_->Post([alive = std::weak_ptr<int>(alive_), task = std::move(task)] {
    if (!alive.expired()) task();
  });
}

void HostMover::EndOnLoop(const Status& status) {
  KF_DCHECK(loop_->InLoop());
  if (!done_) return;
  LaterOnLoop([done = std::exchange(done_, nullptr), status] { done(status); });
}

}  // namespace kungfu
