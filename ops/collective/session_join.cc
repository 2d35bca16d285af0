// Join: a peer without work takes part in the all_reduces of the others.
//
// It tells the others that it has joined, and begins a barrier that ends when all have. Until then the others ask it
// about each operation that they begin, and about those that are under way. It begins what it is asked about, with
// the neutral element: zeros of a sum. A peer that has joined asks about later work only, so it gets the usual answers.

#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "ops/base/begins_with.h"
#include "ops/base/docs_link.h"
#include "ops/base/logging.h"
#include "ops/base/neutral.h"
#include "ops/collective/session.h"

namespace kungfu {
namespace {

constexpr char kJoinName[] = "kungfu/join";
// The news that a peer begins its nth join has the name of the agreement, as an interruption has, and number n + 1.
constexpr uint64_t kInterruptNumber = 1;

}  // namespace

uint64_t Session::JoinsToldOf(const OperationId& id) {
  return id.name == kAgreementName && id.number > kInterruptNumber ? id.number - kInterruptNumber : 0;
}

bool Session::HasJoinedOnLoop(const PeerId& peer) const {
  KF_DCHECK(loop_->InLoop());
  const auto joins = shared_->joins.find(peer);
  return joins != shared_->joins.end() && joins->second > shared_->ended_joins;
}

void Session::Join(std::function<void(const StatusOr<int>& before)> done) {
  if (size() == 0) return done(Status(Code::kAborted, "join: this peer takes no part any more"));
  if (size() == 1) return done(0);
  const bool posted = loop_->Post([self = shared_from_this(), done] { self->JoinOnLoop(done); });
  if (!posted) done(CancelledError("join: this peer has shut down"));
}

void Session::JoinOnLoop(const std::function<void(const StatusOr<int>& before)>& done) {
  KF_DCHECK(loop_->InLoop());
  if (join_) return done(FailedPreconditionError("join: this peer has joined already"));
  const auto before = std::count_if(peers_.peers().begin(), peers_.peers().end(),
                                    [this](const PeerId& peer) { return HasJoinedOnLoop(peer); });
  const uint64_t number = operations_.NamedOnLoop(kJoinName)->begun;
  join_ = OperationId{epoch_, number, kJoinName};
  if (agreed_) TellOfJoinOnLoop();
  Operation meet;
  meet.kind = Kind::kBarrier;
  meet.name = kJoinName;
  meet.of_core = true;
  meet.done = [this, self = shared_from_this(), number, before, done](const Status& status) {
    join_.reset();
    shared_->ended_joins = number + 1;
    status.ok() ? done(static_cast<int>(before)) : done(status);
  };
  RunAtOnceOnLoop(std::move(meet));
}

void Session::TellOfJoinOnLoop() {
  KF_DCHECK(loop_->InLoop());
  const OperationId news{epoch_, kInterruptNumber + join_->number + 1, kAgreementName};
  TellAllOnLoop(news, Status(Code::kOutOfRange, "has joined"), /*passed_on=*/false);
}

void Session::JoinedOnLoop(const PeerId& peer, uint64_t joins) {
  KF_DCHECK(loop_->InLoop());
  shared_->joins[peer] = joins;
  AskAboutAllOnLoop(peers_.RankOf(peer));
  ForGroupsOnLoop([&](Session* group) {
    const int member = group->peers_.RankOf(peer);
    if (member >= 0) group->AskAboutAllOnLoop(member);
  });
}

// The operations by which the peers come together are begun here anyway.
bool Session::StandsInForOnLoop(const PeerId& asker, const OperationId& id) const {
  KF_DCHECK(loop_->InLoop());
  if (!join_ || id.epoch != epoch_ || HasJoinedOnLoop(asker)) return false;
  const Session* const group = GroupOfOnLoop(id);
  const Session* const whose = group ? group : this;
  return whose->agreed_ && !whose->operations_.WasCalled(id);
}

Status Session::StandInOnLoop(const OperationId& id, const Signature& theirs) {
  KF_DCHECK(loop_->InLoop());
  if (RunningOperation* join = operations_.FindRunningOnLoop(*join_)) watch_->ProlongOnLoop(join, options_.timeout);
  Session* const group = GroupOfOnLoop(id);
  return (group ? group : this)->BeginWithNothingOnLoop(id, theirs);
}

// Those that it asks for are begun in order: an asker has asked about the earlier ones of a name before.
Status Session::BeginWithNothingOnLoop(const OperationId& id, const Signature& theirs) {
  KF_DCHECK(loop_->InLoop());
  Operation operation;
  operation.name = operations_.NameOf(id);
  const bool is_of_core = BeginsWith(operation.name, kOwnPrefix);
  std::shared_ptr<char[]> nothing;
  std::string refusal;
  if (is_of_core || theirs.kind != Kind::kAllReduce || (theirs.shape_digest & kAlongTrees) != 0 ||
      !Supports(theirs.dtype, theirs.op)) {
    refusal = "it takes part in all_reduces only";
  } else if (theirs.count <= kMaxBulkSize / SizeOf(theirs.dtype)) {
    nothing.reset(new (std::nothrow) char[theirs.count * SizeOf(theirs.dtype)]);
  }
  if (!nothing) {
    operations_.NamedOnLoop(operation.name)->begun = id.number + 1;
    if (refusal.empty()) refusal = "it has no memory for the tensor";
    return FailedPreconditionError(Linked("joined", "has joined: " + refusal));
  }
  FillNeutral(nothing.get(), theirs.count, theirs.dtype, theirs.op);
  operation.kind = theirs.kind;
  operation.dtype = theirs.dtype;
  operation.op = theirs.op;
  operation.shape_digest = theirs.shape_digest;
  operation.step = theirs.step;
  operation.spans = {{nothing.get(), nothing.get(), theirs.count}};
  if ((theirs.shape_digest & kWithNorms) != 0) operation.measured = [](const Norms&) {};
  operation.done = [nothing](const Status& status) {
    if (!status.ok()) KF_LOG(WARNING) << "after this peer had joined: " << status.message();
  };
  operations_.NamedOnLoop(operation.name)->begun = id.number;
  RunAtOnceOnLoop(std::move(operation));
  return OkStatus();
}

// Those that another peer has no part in need not fail by it.
void Session::RefusedOnLoop(const PeerId& by, const OperationId& id, const Status& why) {
  KF_DCHECK(loop_->InLoop());
  const int rank = peers_.RankOf(by);
  const RunningOperation* const running = operations_.FindRunningOnLoop(id);
  const OperationTable::Waiting* waiting = operations_.FindWaitingOnLoop(id);
  if (!running && !waiting) return;
  const Operation& operation = waiting ? waiting->operation : running->operation();
  if (!ArePartners(operation, rank_, rank)) return;
  FailOnLoop(id, why.WithContext("rank " + std::to_string(rank) + " (" + by.ToString() + ")"));
}

}  // namespace kungfu
