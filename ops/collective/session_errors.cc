// How a session fails: errors that this peer finds or is told of, lost peers, interrupted epochs.

#include <string>
#include <utility>

#include "ops/base/logging.h"
#include "ops/collective/session.h"

namespace kungfu {
namespace {

// Failures of operations that have not begun here: more than this many are not remembered.
constexpr size_t kMaxFailedEarly = 1 << 14;

}  // namespace

void Session::PeerFailedOnLoop(int rank, const std::string& text) {
  if (IsOtherOnLoop(rank)) GiveUpOnLoop(rank, UnavailableError(text));
}

void Session::PeerLeftOnLoop(int rank) {
  if (!IsOtherOnLoop(rank) || !router_ || router_->ConnectedOnLoop(peers_[rank])) return;
  router_->GiveUpOnLoop(peers_[rank], CancelledError("the peer has left"));
}

bool Session::IsOtherOnLoop(int rank) const {
  KF_DCHECK(loop_->InLoop());
  if (rank >= 0 && rank < size() && rank != rank_) return true;
  KF_LOG(WARNING) << "the runner tells of rank " << rank << ", which is no other peer of this session";
  return false;
}

// All hear of it, the peer itself, too, if it is only slow.
void Session::GiveUpOnLoop(int rank, const Status& why) {
  KF_DCHECK(loop_->InLoop());
  DieOnLoop(why.WithContext("rank " + std::to_string(rank) + " (" + peers_[rank].ToString() + ")"), false);
  router_->GiveUpOnLoop(peers_[rank], why);
}

void Session::AbortOnLoop(const Status& why) {
  KF_DCHECK(loop_->InLoop());
  ForGroupsOnLoop([&](Session* group) { group->AbortOnLoop(why); });
  BreakOnLoop(why, /*tell=*/true);
}

// The failure of the agreement stands for the failure of the session.
OperationId Session::AgreementId() const { return {epoch_, 0, prefix_ + kAgreementName}; }

// Nor is it a name that the interruption could share with an operation.
OperationId Session::InterruptId() const { return {epoch_, 1, prefix_ + kAgreementName}; }

void Session::InterruptOnLoop(const Status& why) {
  KF_DCHECK(loop_->InLoop());
  if (std::exchange(gave_up_, true)) return;
  interrupted_ = true;
  TellAllOnLoop(InterruptId(), why, /*passed_on=*/false);
  const Status given_up = CancelledError("given up, because " + why.message());
  BreakOnLoop(given_up, /*tell=*/false);
  ForGroupsOnLoop([&](Session* group) { group->BreakOnLoop(given_up, /*tell=*/false); });
  if (on_interrupted_) on_interrupted_(given_up);
}

void Session::InterruptedOnLoop(int rank, const Status& why) {
  KF_DCHECK(loop_->InLoop());
  interrupted_ = true;
  interrupters_.emplace(rank, why);
  AskAboutAllOnLoop(rank);
  ForGroupsOnLoop([&](Session* group) {
    const int member = group->peers_.RankOf(peers_[rank]);
    if (member >= 0) group->InterruptedOnLoop(member, why);
  });
  if (on_interrupted_) on_interrupted_(why);
}

void Session::AskAboutAllOnLoop(int rank) {
  KF_DCHECK(loop_->InLoop());
  operations_.ForRunningOnLoop(
      [&](RunningOperation* one) { router_->AskOnLoop(peers_[rank], one->id(), one->signature()); });
  for (const OperationTable::Waiting& one : operations_.waiting()) {
    router_->AskOnLoop(peers_[rank], one.id, SignatureOf(one.operation));
  }
}

void Session::AskThoseWhoMayMissItOnLoop(const OperationId& id, const Signature& signature) {
  KF_DCHECK(loop_->InLoop());
  for (const auto& [rank, why] : interrupters_) router_->AskOnLoop(peers_[rank], id, signature);
  for (const auto& [peer, joins] : shared_->joins) {
    if (HasJoinedOnLoop(peer) && peers_.RankOf(peer) >= 0) router_->AskOnLoop(peer, id, signature);
  }
}

void Session::FailOnLoop(const OperationId& id, const Status& status) {
  KF_DCHECK(loop_->InLoop());
  RunningOperation* const running = operations_.FindRunningOnLoop(id);
  const OperationTable::Waiting* waiting = operations_.FindWaitingOnLoop(id);
  if (running) {
    running->FailOnLoop(status.WithContext(running->title()), /*tell=*/true);
  } else if (waiting) {
    DropWaitingOnLoop(waiting, status.WithContext(Title(waiting->operation)), /*tell=*/true);
  }
}

// The first reason stays; pending operations end in any case.
void Session::BreakOnLoop(const Status& why, bool tell) {
  KF_DCHECK(loop_->InLoop());
  if (broken_.ok()) broken_ = why;
  while (!operations_.waiting().empty()) {
    const OperationTable::Waiting* waiting = &operations_.waiting().front();
    DropWaitingOnLoop(waiting, why.WithContext(Title(waiting->operation)), tell);
  }
  operations_.ForRunningOnLoop([&](RunningOperation* one) { one->FailOnLoop(why.WithContext(one->title()), tell); });
}

// First-hand news is passed on: the sender may be gone before it has reached the others. Among neighbours any news is,
// once: each peer knows its own neighbours only.
void Session::OnFailOnLoop(const PeerId& from, const OperationId& id, const Status& status, bool passed_on) {
  KF_DCHECK(loop_->InLoop());
  if (Session* group = GroupOfOnLoop(id)) return group->OnFailOnLoop(from, id, status, passed_on);
  const std::string teller = passed_on ? "" : " (told by rank " + std::to_string(peers_.RankOf(from)) + ")";
  const Status told(status.code(), status.message() + teller);
  RunningOperation* const running = operations_.FindRunningOnLoop(id);
  const OperationTable::Waiting* waiting = operations_.FindWaitingOnLoop(id);
  if (id == AgreementId()) {
    DieOnLoop(told, /*passed_on=*/true);
  } else if (id == InterruptId()) {
    InterruptedOnLoop(peers_.RankOf(from), told);
  } else if (const uint64_t joins = JoinsToldOf(id)) {
    JoinedOnLoop(from, joins);
  } else if (running) {
    const Operation& operation = running->operation();
    const bool is_news = !running->failed() && (!passed_on || operation.mixing);
    if (is_news) TellPartnersOnLoop(id, operation, told, /*passed_on=*/true);
    running->FailOnLoop(told, /*tell=*/false);
  } else if (waiting) {
    const bool is_news = !passed_on || waiting->operation.mixing;
    if (is_news) TellPartnersOnLoop(id, waiting->operation, told, /*passed_on=*/true);
    DropWaitingOnLoop(waiting, told, /*tell=*/false);
  } else if (!operations_.WasCalled(id) && operations_.early_failures() < kMaxFailedEarly) {
    operations_.FailEarlyOnLoop(id, told);
  }
}

void Session::DieOnLoop(const Status& why, bool passed_on) {
  KF_DCHECK(loop_->InLoop());
  if (!dead_) TellAllOnLoop(AgreementId(), why, passed_on);
  dead_ = true;
  BreakOnLoop(why, /*tell=*/false);
}

// A peer that left owes nothing but to operations that still await it, and to later ones that it is a partner in. A
// dead peer ends the session, and the first peer that notices tells all. So a peer that fails as a consequence, and
// leaves, is not taken for the cause.
Status Session::OnPeerLostOnLoop(const PeerId& peer, const Status& why, bool left) {
  KF_DCHECK(loop_->InLoop());
  ForGroupsOnLoop([&](Session* group) {
    // What is said of the loss comes from the session of all.
    if (group->peers_.RankOf(peer) >= 0) static_cast<void>(group->OnPeerLostOnLoop(peer, why, left));
  });
  const int rank = peers_.RankOf(peer);
  const Status status = why.WithContext("rank " + std::to_string(rank) + " (" + peer.ToString() + ")");
  if (!left) {
    DieOnLoop(status, /*passed_on=*/false);
    return why;
  }
  const auto interrupter = interrupters_.find(rank);
  if (interrupter == interrupters_.end()) {
    if (left_.empty()) first_left_ = status;
    left_.emplace(rank, status);
    return why;
  }
  // It has interrupted the epoch before, and told its reason.
  if (broken_.ok()) broken_ = interrupter->second;
  return interrupter->second;
}

}  // namespace kungfu
