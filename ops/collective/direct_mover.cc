#include "ops/collective/direct_mover.h"

#include <utility>
#include <vector>

#include "ops/base/bytes.h"
#include "ops/base/logging.h"
#include "ops/collective/direct_reduction.h"
#include "ops/collective/norms.h"
#include "ops/plan/partition.h"

namespace kungfu {
namespace {

class DirectMover : public HostMover {
 public:
  using HostMover::HostMover;

 private:
  Pieces Board() override {
    if (!movement().measurement) return {};
    board_.resize(group().size());
    return {{reinterpret_cast<char*>(board_.data()), board_.size() * sizeof(Norms)}};
  }

  ShortList<Range> Own(uint64_t total) const override {
    ShortList<Range> own = {Share(total)};
    if (movement().measurement) own.push_back(OnBoard(total));
    return own;
  }

  // This peer's part of the array.
  Range Share(uint64_t total) const {
    const Range lines = EvenPart(total / kLine, group().size(), place());
    return {lines.begin * kLine, place() + 1 == group().size() ? total : lines.end * kLine};
  }

  // The place on each board for the measurements of this peer.
  Range OnBoard(uint64_t total) const {
    const uint64_t begin = total + place() * sizeof(Norms);
    return {begin, begin + sizeof(Norms)};
  }

  void BeginOnLoop() override {
    KF_DCHECK(loop()->InLoop());
    const uint64_t total = TotalSize(data()[place()].send);
    const Range share = Share(total);
    reduction_.Clear();
    reduction_.AddResult(Slice(data()[place()].recv, share.begin, share.size()));
    for (int other = 0; other < group().size(); ++other) {
      reduction_.AddOperand(Slice(data()[other].send, share.begin, share.size()));
      if (other == place()) continue;
      reduction_.AddResult(Slice(data()[other].recv, share.begin, share.size()), CopierTo(other));
    }
    if (measures()) {
      reduction_.MeasureOperands();
      reduction_.MeasureResult();
      for (const Data& one : data()) places_.push_back(Slice(one.recv, OnBoard(total).begin, sizeof(Norms)));
    }
    Reduce();
  }

  void Reduce() {
    const Clock::time_point start = Clock::now();
    while (!ended() && !reduction_.Advance(kSlice)) {
      if (Clock::now() - start > kTurn) return LaterOnLoop([this] { Reduce(); });
    }
    if (ended()) return;
    if (measures()) Announce();
    FinishOnLoop();
  }

  // Tells all peers the measurements of this share.
  void Announce() {
    const Norms share = {reduction_.operand_norm(), reduction_.result_norm()};
    for (const Pieces& place : places_) Copy({{reinterpret_cast<const char*>(&share), sizeof(Norms)}}, place);
  }

  // The shares in the order of the peers, so that all have the same sums.
  void ConcludeOnLoop() override {
    if (!movement().measurement) return;
    Measurement& measurement = *movement().measurement;
    measurement.complete = true;
    measurement.norms = measures() ? Norms() : Norms::Unknown();
    if (!measures()) return;
    for (const Norms& share : board_) {
      measurement.norms.sent += share.sent;
      measurement.norms.received += share.received;
    }
  }

  bool MayRepeat() const override { return !movement().measurement; }

  DirectReduction reduction_{movement().dtype, movement().op, movement().size, SumStores()};
  std::vector<Norms> board_;    // what each peer has measured, by place
  std::vector<Pieces> places_;  // this peer's on each board
};

}  // namespace

std::unique_ptr<Mover> MakeDirectMover(EventLoop* loop, DirectGroup* group, Movement movement,
                                       Conversation* conversation, const MoverFactory& fallback,
                                       OperationCounters* counters) {
  return std::make_unique<DirectMover>(loop, group, std::move(movement), conversation, fallback, counters);
}

}  // namespace kungfu
