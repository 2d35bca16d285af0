#include "ops/collective/running_operation.h"

#include <algorithm>
#include <utility>

#include "ops/base/docs_link.h"
#include "ops/base/logging.h"

namespace kungfu {
namespace {

// The time for which a failed operation waits for its sends, before it gives the receiver up.
constexpr Seconds kSendGrace{2};

Clock::time_point StartOf(const Operation& operation) {
  return operation.began == Clock::time_point{} ? Clock::now() : operation.began;
}

}  // namespace

RunningOperation::RunningOperation(EventLoop* loop, Router* router, Routes* routes, const PeerList& peers,
                                   const MoverFactory& movers, uint64_t handle, OperationId id, Operation operation,
                                   Found found, Ended ended)
    : loop_(loop),
      peers_(peers),
      rank_(routes->rank()),
      found_(std::move(found)),
      ended_(std::move(ended)),
      handle_(handle),
      operation_(std::move(operation)),
      started_(StartOf(operation_)),
      prepared_(router, routes, peers, movers, std::move(id), &operation_, this) {}

RunningOperation::~RunningOperation() = default;

void RunningOperation::StartOnLoop() {
  KF_DCHECK(loop_->InLoop());
  const std::unique_ptr<Mailbox::Mismatch> mismatch = prepared_.conversation().OpenOnLoop();
  if (mismatch) {
    OnMismatchOnLoop(mismatch->from, mismatch->difference);
    return;
  }
  NextStage();
}

void RunningOperation::NextStage() {
  const StatusOr<Mover*> mover = prepared_.NextOnLoop();
  if (!mover.ok()) return FailOnLoop(mover.status(), /*tell=*/true);
  if (*mover == nullptr) return ended_(this, OkStatus());
  (*mover)->StartOnLoop([this](const Status& status) {
    if (status.ok()) return NextStage();
    FailOnLoop(Status(status.code(), title() + " " + status.message()), /*tell=*/true);
  });
}

bool RunningOperation::RestOnLoop() {
  KF_DCHECK(loop_->InLoop());
  handle_ = 0;
  return prepared_.RestOnLoop();
}

void RunningOperation::RepeatOnLoop(uint64_t handle, uint64_t number, Operation&& operation) {
  KF_DCHECK(loop_->InLoop());
  handle_ = handle;
  Renew(&operation_, std::move(operation));
  started_ = StartOf(operation_);
  differs_from_ = -1;
  prepared_.RepeatOnLoop(number);
}

std::vector<int> RunningOperation::AwaitedOnLoop() const {
  KF_DCHECK(loop_->InLoop());
  std::vector<int> ranks = prepared_.conversation().AwaitedOnLoop();
  if (!prepared_.mover()) return ranks;
  for (const int rank : prepared_.mover()->AwaitedOnLoop()) {
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

// Comes from inside the mailbox, so it takes effect later.
void RunningOperation::OnMismatchOnLoop(const PeerId& from, const std::string& difference) {
  KF_DCHECK(loop_->InLoop());
  const int rank = peers_.RankOf(from);
  const Status status = InvalidArgumentError(Linked(
      "differs", title() + " differs between rank " + std::to_string(rank) + " (" + from.ToString() + ") and rank " +
                     std::to_string(rank_) + " (" + peers_[rank_].ToString() + "): " + difference));
  loop_->Post([this, alive = std::weak_ptr<int>(alive_), handle = handle_, rank, status] {
    if (alive.expired() || handle != handle_) return;
    differs_from_ = rank;
    FailOnLoop(status, /*tell=*/true);
  });
}

void RunningOperation::CompareOnLoop(const PeerId& from, const Signature& theirs) {
  KF_DCHECK(loop_->InLoop());
  if (theirs != signature()) OnMismatchOnLoop(from, DescribeDifference(theirs, signature()));
}

void RunningOperation::FailOnLoop(const Status& status, bool tell) {
  KF_DCHECK(loop_->InLoop());
  if (failed()) return;
  failure_ = status;
  if (prepared_.mover()) prepared_.mover()->StopOnLoop();
  if (tell) found_(this, status);
  prepared_.conversation().CloseOnLoop(kSendGrace, [this, alive = std::weak_ptr<int>(alive_)] {
    if (alive.expired()) return;
    prepared_.DropMover();
    ended_(this, failure_);
  });
}

}  // namespace kungfu
