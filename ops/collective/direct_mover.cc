#include "ops/collective/direct_mover.h"

#include <utility>

#include "ops/base/bytes.h"
#include "ops/base/logging.h"
#include "ops/collective/direct_reduction.h"
#include "ops/plan/partition.h"

namespace kungfu {
namespace {

class DirectMover : public HostMover {
 public:
  using HostMover::HostMover;

 private:
  void BeginOnLoop(std::vector<Data> data) override {
    KF_DCHECK(loop()->InLoop());
    const uint64_t total = TotalSize(data[place()].send);
    const Range lines = EvenPart(total / kLine, group().size(), place());
    const uint64_t begin = lines.begin * kLine;
    const uint64_t size = (place() + 1 == group().size() ? total : lines.end * kLine) - begin;
    std::vector<Payload> operands;
    std::vector<Pieces> results = {Slice(data[place()].recv, begin, size)};
    for (int other = 0; other < group().size(); ++other) {
      operands.push_back(Slice(data[other].send, begin, size));
      if (other != place()) results.push_back(Slice(data[other].recv, begin, size));
    }
    reduction_ = std::make_unique<DirectReduction>(std::move(operands), std::move(results), movement().dtype,
                                                   movement().op, movement().size);
    Reduce();
  }

  void Reduce() {
    const Clock::time_point start = Clock::now();
    while (!ended() && !reduction_->Advance(kSlice)) {
      if (Clock::now() - start > kTurn) return LaterOnLoop([this] { Reduce(); });
    }
    FinishOnLoop();
  }

  std::unique_ptr<DirectReduction> reduction_;
};

}  // namespace

std::unique_ptr<Mover> MakeDirectMover(EventLoop* loop, DirectGroup* group, Movement movement,
                                       Conversation* conversation, const MoverFactory& fallback,
                                       OperationCounters* counters) {
  return std::make_unique<DirectMover>(loop, group, std::move(movement), conversation, fallback, counters);
}

}  // namespace kungfu
