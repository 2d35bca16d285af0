#include "ops/collective/hierarchy_mover.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "ops/base/accumulate.h"
#include "ops/base/logging.h"
#include "ops/base/squared_norm.h"
#include "ops/collective/chunk_run.h"
#include "ops/collective/direct_reduction.h"

namespace kungfu {
namespace {

class HierarchyMover : public HostMover {
 public:
  using HostMover::HostMover;

 private:
  // A chunk that this peer carries.
  struct Share {
    uint64_t begin, size;  // within the whole array
    Chunk chunk;           // both of it where the result is to be
    std::unique_ptr<Accumulator> total{};
    std::unique_ptr<DirectReduction> reduction{};  // under way
    std::unique_ptr<ChunkRun> run{};
    SquaredSum received{};
    uint64_t spread = 0;  // bytes that the host's other peers have got
  };

  ShortList<Range> Own(uint64_t) const override {
    ShortList<Range> own;
    ForEachShare([&own](const Chunk&, Range share) { own.push_back(share); });
    return own;
  }

  void BeginOnLoop() override {
    KF_DCHECK(loop()->InLoop());
    for (int other = 0; other < group().size(); ++other) {
      if (other != place()) others_.push_back(other);
    }
    ForEachShare([this](const Chunk& chunk, Range share) {
      shares_.push_back(
          {share.begin, share.size(), {chunk.reduce, chunk.broadcast, AsPayload(chunk.recv), chunk.recv, chunk.part}});
    });
    Work();
  }

  // Calls `visit(chunk, its bytes within the whole array)` for those that this peer carries.
  template <typename Visit>
  void ForEachShare(Visit visit) const {
    uint64_t begin = 0;
    for (const Chunk& chunk : movement().chunks) {
      const Range bytes = {begin, begin + TotalSize(chunk.send)};
      if (IsCarrier(chunk)) visit(chunk, bytes);
      begin = bytes.end;
    }
  }

  // Its way does not lead to another peer of the host.
  bool IsCarrier(const Chunk& chunk) const {
    const std::vector<int>& ranks = group().ranks();
    const std::vector<int>& way = chunk.reduce->Successors(rank());
    return way.empty() || std::find(ranks.begin(), ranks.end(), way[0]) == ranks.end();
  }

  void Work() {
    const Clock::time_point start = Clock::now();
    while (!ended() && Step()) {
      if (Clock::now() - start > kTurn) return WorkLater();
    }
  }

  void WorkLater() {
    if (std::exchange(scheduled_, true)) return;
    LaterOnLoop([this] {
      scheduled_ = false;
      Work();
    });
  }

  // The arrived data are still in the caches. Returns whether there was something to do.
  bool Step() {
    if (!arrived_.empty()) {
      Spread(arrived_.front());
    } else if (next_ < shares_.size() && next_ - ended_ < kChunksUnderWay) {
      Reduce(&shares_[next_]);
    } else {
      if (ended_ == shares_.size()) Finish();
      return false;
    }
    return true;
  }

  // Measurements are added up in the order of the chunks, not of their ends.
  void Finish() {
    if (movement().measurement) {
      Norms& norms = movement().measurement->norms;
      norms.received = 0;
      for (const Share& share : shares_) norms.received += share.received.Total();
      if (!measures()) norms = Norms::Unknown();
    }
    FinishOnLoop();
  }

  void Reduce(Share* share) {
    if (!share->reduction) Prepare(share);
    if (!share->reduction->Advance(kSlice)) return;
    if (measures()) movement().measurement->norms.sent += share->reduction->operand_norm();
    share->reduction = nullptr;
    ++next_;
    std::vector<int> served;
    for (const int other : others_) served.push_back(group().ranks()[other]);
    share->run = std::make_unique<ChunkRun>(
        movement(), share->chunk, rank(), conversation(),
        [this, share](const Status& status) {
          if (!status.ok()) return EndOnLoop(status);
          arrived_.push_back(share);
          WorkLater();
        },
        ChunkRun::Served{std::move(served), std::move(share->total)});
    share->run->Start();
  }

  // In the order of the graph: the carrier itself, then those whose way leads to it.
  void Prepare(Share* share) {
    const DType dtype = movement().dtype;
    const ReduceOp op = movement().op;
    share->reduction = std::make_unique<DirectReduction>(dtype, op, /*peers=*/0);
    share->reduction->AddOperand(Slice(data()[place()].send, share->begin, share->size));
    for (const int other : others_) {
      share->reduction->AddOperand(Slice(data()[other].send, share->begin, share->size));
    }
    if (AccumulatorOf(dtype, op) != dtype) {
      share->total = std::make_unique<Accumulator>(share->size / SizeOf(dtype), dtype, op);
      share->reduction->SetTotal(share->total.get());
    } else {
      share->reduction->AddResult(share->chunk.recv);
    }
    if (measures()) share->reduction->MeasureOperands();
  }

  void Spread(Share* share) {
    const uint64_t size = std::min(kSlice, share->size - share->spread);
    const Payload result = Slice(share->chunk.send, share->spread, size);
    for (const int other : others_) {
      Copy(result, Slice(data()[other].recv, share->begin + share->spread, size), CopierTo(other));
    }
    if (measures() && Concludes(share->chunk, rank())) AddSquares(result, movement().dtype, &share->received);
    share->spread += size;
    if (share->spread < share->size) return;
    arrived_.pop_front();
    ++ended_;
  }

  std::vector<int> others_;  // places
  std::vector<Share> shares_;
  size_t next_ = 0;             // is reduced next, or being so
  std::deque<Share*> arrived_;  // results that the others do not have yet
  size_t ended_ = 0;
  bool scheduled_ = false;
};

}  // namespace

std::unique_ptr<Mover> MakeHierarchyMover(EventLoop* loop, DirectGroup* group, Movement movement,
                                          Conversation* conversation, const MoverFactory& fallback,
                                          OperationCounters* counters) {
  return std::make_unique<HierarchyMover>(loop, group, std::move(movement), conversation, fallback, counters);
}

}  // namespace kungfu
