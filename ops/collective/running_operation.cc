#include "ops/collective/running_operation.h"

#include <algorithm>
#include <utility>

#include "ops/base/docs_link.h"
#include "ops/base/logging.h"

namespace kungfu {
namespace {

// The time for which a failed operation waits for its sends, before it gives the receiver up.
constexpr Seconds kSendGrace{2};

}  // namespace

RunningOperation::RunningOperation(EventLoop* loop, Router* router, Routes* routes, const PeerList& peers,
                                   const MoverFactory& movers, uint64_t handle, OperationId id, Operation operation,
                                   Found found, Ended ended)
    : loop_(loop),
      peers_(peers),
      movers_(movers),
      rank_(routes->rank()),
      handle_(handle),
      id_(std::move(id)),
      operation_(std::move(operation)),
      signature_(SignatureOf(operation_)),
      found_(std::move(found)),
      ended_(std::move(ended)),
      started_(operation_.began == Clock::time_point{} ? Clock::now() : operation_.began),
      conversation_(router, peers, id_, signature_, this),
      plan_(&operation_, routes) {}

RunningOperation::~RunningOperation() = default;

void RunningOperation::StartOnLoop() {
  KF_DCHECK(loop_->InLoop());
  const std::unique_ptr<Mailbox::Mismatch> mismatch = conversation_.OpenOnLoop();
  if (mismatch) {
    OnMismatchOnLoop(mismatch->from, mismatch->difference);
    return;
  }
  NextStage();
}

void RunningOperation::NextStage() {
  StatusOr<std::unique_ptr<Movement>> movement = plan_.Next();
  if (!movement.ok()) return FailOnLoop(movement.status(), /*tell=*/true);
  if (!*movement) {
    ended_(this, OkStatus());
    return;
  }
  mover_ = movers_(std::move(**movement), rank_, &conversation_);
  mover_->StartOnLoop([this](const Status& status) {
    if (status.ok()) return NextStage();
    FailOnLoop(Status(status.code(), title() + " " + status.message()), /*tell=*/true);
  });
}

std::vector<int> RunningOperation::AwaitedOnLoop() const {
  KF_DCHECK(loop_->InLoop());
  std::vector<int> ranks = conversation_.AwaitedOnLoop();
  if (!mover_) return ranks;
  for (const int rank : mover_->AwaitedOnLoop()) {
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
  loop_->Post([this, alive = std::weak_ptr<int>(alive_), rank, status] {
    if (alive.expired()) return;
    differs_from_ = rank;
    FailOnLoop(status, /*tell=*/true);
  });
}

void RunningOperation::CompareOnLoop(const PeerId& from, const Signature& theirs) {
  KF_DCHECK(loop_->InLoop());
  if (theirs != signature_) OnMismatchOnLoop(from, DescribeDifference(theirs, signature_));
}

void RunningOperation::FailOnLoop(const Status& status, bool tell) {
  KF_DCHECK(loop_->InLoop());
  if (failed()) return;
  failure_ = status;
  if (mover_) mover_->StopOnLoop();
  if (tell) found_(this, status);
  conversation_.CloseOnLoop(kSendGrace, [this, alive = std::weak_ptr<int>(alive_)] {
    if (alive.expired()) return;
    mover_.reset();
    ended_(this, failure_);
  });
}

}  // namespace kungfu
