#include "ops/collective/session.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ops/base/accumulate.h"
#include "ops/base/docs_link.h"
#include "ops/base/logging.h"
#include "ops/collective/direct_mover.h"
#include "ops/collective/exchange_mover.h"
#include "ops/collective/graph_executor.h"
#include "ops/collective/hierarchy_mover.h"
#include "ops/collective/neighbor_mover.h"
#include "ops/collective/single_peer.h"

namespace kungfu {
namespace {

constexpr double kMaxTimeout = 1e9;
// The bits of a handle that count within an epoch, and the highest ones, which are not ours.
constexpr int kHandleBits = 40;
constexpr uint64_t kForeignBits = uint64_t{3} << 62;

}  // namespace

Session::Session(EventLoop* loop, Router* router, const PeerList& peers, int rank, uint32_t epoch,
                 const SessionOptions& options, OperationCounters* counters, StatusCallback first_failure,
                 StatusCallback interrupted)
    : loop_(loop),
      router_(router),
      peers_(peers),
      rank_(rank),
      epoch_(epoch),
      options_(options),
      counters_(counters),
      graph_movers_([loop](Movement movement, int rank, Conversation* conversation) {
        return MakeGraphExecutor(loop, std::move(movement), rank, conversation);
      }),
      first_failure_(std::move(first_failure)),
      on_interrupted_(std::move(interrupted)),
      shared_(std::make_shared<Shared>()),
      operations_(MakeTable()) {
  shared_->next_handle = ((static_cast<uint64_t>(epoch) << kHandleBits) & ~kForeignBits) + 1;
}

Session::~Session() = default;

OperationTable Session::MakeTable() {
  return OperationTable(
      loop_, router_, peers_, epoch_, prefix_,
      [this](Movement movement, int, Conversation* conversation) {
        return MakeMover(std::move(movement), conversation);
      },
      [this](RunningOperation* which, const Status& status) { TellOfFailureOnLoop(*which, status); },
      [this](RunningOperation* which, const Status& status) { EndedOnLoop(which, status); });
}

bool Session::Begin(Operation* operation) {
  ++shared_->pending;
  if (!among_.empty()) operation->among = among_;
  operation->began = Clock::now();
  counters_->Began(operation->name, operation->began);
  if (size() > 1) {
    TakeDigest(operation);
    return true;
  }
  if (size() == 0) {
    const std::string why = ": this peer takes no part any more";
    Finish(operation, Status(Code::kAborted, Title(*operation) + why));
    return false;
  }
  Status status = ValidateName(*operation, prefix_.size());
  if (status.ok()) status = Validate(*operation, 1, 0);
  if (status.ok()) status = CompleteOnSinglePeer(*operation);
  Finish(operation, status);
  return false;
}

uint64_t Session::RunAtOnceOnLoop(Operation&& operation) {
  KF_DCHECK(loop_->InLoop());
  const uint64_t handle = shared_->next_handle++;
  if (Begin(&operation)) StartOnLoop(handle, std::move(operation));
  return handle;
}

uint64_t Session::Start(Operation&& operation) {
  const uint64_t handle = shared_->next_handle++;
  if (!Begin(&operation)) return handle;
  if (loop_->MayRunAtOnce()) {
    StartOnLoop(handle, std::move(operation));
    return handle;
  }
  // std::function must be copyable; the operation travels by pointer.
  auto shared = std::make_shared<Operation>(std::move(operation));
  if (!loop_->Post([self = shared_from_this(), handle, shared] { self->StartOnLoop(handle, std::move(*shared)); })) {
    Finish(shared.get(), CancelledError(Title(*shared) + ": this peer has shut down"));
  }
  return handle;
}

void Session::Ping(Seconds timeout, Pinger::Done done) {
  std::vector<double> seconds(size(), std::numeric_limits<double>::infinity());
  if (size() > 0) seconds[rank_] = 0;
  if (size() <= 1) return done(seconds);
  auto shared = std::make_shared<Pinger::Done>(std::move(done));
  const bool posted = loop_->Post([self = shared_from_this(), timeout, seconds, shared] {
    if (!self->pinger_) return (*shared)(seconds);
    Pinger::Questions questions;
    for (int rank = 0; rank < self->size(); ++rank) {
      if (rank != self->rank_) questions.ranks.push_back(rank);
    }
    self->pinger_->PingOnLoop(questions, After(timeout), std::move(*shared));
  });
  if (!posted) (*shared)(seconds);
}

void Session::Cancel(uint64_t handle, const Status& cause) {
  if (size() <= 1) return;
  loop_->Post([this, self = shared_from_this(), handle, cause] {
    const std::string by = " was cancelled at rank " + std::to_string(rank_) + " (" + peers_[rank_].ToString() + ")";
    const Status why = cause.ok() ? CancelledError(by) : Status(cause.code(), by + ", because " + cause.message());
    const auto because = [&why](const std::string& title) { return Status(why.code(), title + why.message()); };
    if (RunningOperation* running = operations_.FindRunningOnLoop(handle)) {
      running->FailOnLoop(because(running->title()), /*tell=*/true);
    } else if (const OperationTable::Waiting* waiting = operations_.FindWaitingOnLoop(handle)) {
      DropWaitingOnLoop(waiting, because(Title(waiting->operation)), /*tell=*/true);
    } else {
      ForGroupsOnLoop([&](Session* group) { group->Cancel(handle, cause); });
    }
  });
}

void Session::BeginOnLoop(std::shared_ptr<Session> previous) {
  KF_DCHECK(loop_->InLoop());
  previous_ = std::move(previous);
  watch_ = std::make_unique<StallWatch>(loop_, router_, peers_, rank_, options_.stall_warning, options_.silence_timeout,
                                        [this](int rank, const Status& why) { GiveUpOnLoop(rank, why); });
  pinger_ = std::make_unique<Pinger>(loop_, router_, peers_, rank_, epoch_, prefix_);
  if (prefix_.empty()) {
    router_->BeginEpochOnLoop(epoch_, peers_, this);
    for (const auto& [number, group] : groups()) {
      if (group->session) BeginGroupOnLoop(number, group->session.get());
    }
  }
  if (size() > 1) {
    AgreeOnLoop();
  } else {
    OpenOnLoop();
  }
}

// Until it is known which strategy is used messages take a star. The others knock at rank 0's door meanwhile: so both
// sides learn at once if they cannot come together, e.g. for different secrets.
void Session::AgreeOnLoop() {
  KF_DCHECK(loop_->InLoop());
  operations_.UseRoutesOnLoop(std::make_unique<Routes>(Choice::Of(StrategyName::kStar), std::vector<int>(), peers_,
                                                       rank_, options_.chunk_bytes));
  const auto run = [this](Operation operation) {
    operation.of_session = true;
    operation.among = among_;
    OperationTable::Named* const named = operations_.NamedOnLoop(operation.name);
    const uint64_t number = named->begun++;
    const OperationId id = operations_.IdOf(operation.name, number);
    const Status& hopeless = HopelessOnLoop(operation);
    if (!hopeless.ok()) operations_.FailEarlyOnLoop(id, hopeless);
    if (rank_ != 0 && id == AgreementId()) router_->AskOnLoop(peers_[0], id, SignatureOf(operation));
    RunOnLoop(shared_->next_handle++, named, number, std::move(operation));
  };
  Agreement::Means means;
  means.strategy = options_.strategy.name;
  means.chunk_bytes = options_.chunk_bytes;
  means.direct = options_.direct;
  means.arena = options_.arena;
  means.direct_bytes = options_.direct_bytes;
  means.exchanges = options_.exchanges;
  if (previous_ && previous_->peers_.peers() == peers_.peers()) means.measured = previous_->terms_.measured;
  agreement_ =
      std::make_unique<Agreement>(loop_, pinger_.get(), peers_, rank_, means, run,
                                  [this](StatusOr<Agreement::Terms> terms) { AgreedOnLoop(std::move(terms)); });
  agreement_->StartOnLoop();
}

void Session::AgreedOnLoop(StatusOr<Agreement::Terms> terms) {
  KF_DCHECK(loop_->InLoop());
  if (terms.ok()) {
    terms_ = std::move(*terms);
    operations_.UseRoutesOnLoop(
        std::make_unique<Routes>(terms_.ways.choice, options_.strategy.parents, peers_, rank_, terms_.chunk_bytes));
    chosen_ = terms_.ways.choice.Last();
  } else if (broken_.ok()) {
    broken_ = first_left_.ok() ? terms.status() : first_left_;  // those that follow it are no cause
  }
  agreement_.reset();
  OpenOnLoop();
}

std::unique_ptr<Mover> Session::MakeMover(Movement movement, Conversation* conversation) {
  if (movement.mixing) return MakeNeighborMover(loop_, std::move(movement), conversation);
  uint64_t bytes = 0;
  for (const Chunk& chunk : movement.chunks) bytes += TotalSize(chunk.send);
  const bool grows = AccumulatorOf(movement.dtype, movement.op) != movement.dtype;
  switch (movement.all_reduce ? terms_.ways.For(bytes, grows) : Way::kGraphs) {
    case Way::kDirect:
      return MakeDirectMover(loop_, terms_.direct.get(), std::move(movement), conversation, graph_movers_, counters_);
    case Way::kHierarchy:
      return MakeHierarchyMover(loop_, terms_.direct.get(), std::move(movement), conversation, graph_movers_,
                                counters_);
    case Way::kExchange:
      if (movement.measurement) break;
      return MakeExchangeMover(loop_, terms_.ways.meeting == size() ? terms_.direct.get() : nullptr,
                               std::move(movement), rank_, conversation);
    case Way::kGraphs:
      break;
  }
  return graph_movers_(std::move(movement), rank_, conversation);
}

// Starts the operations that were called before the agreement.
void Session::OpenOnLoop() {
  KF_DCHECK(loop_->InLoop());
  agreed_ = true;
  if (join_) TellOfJoinOnLoop();
  std::list<OperationTable::Waiting> waiting = operations_.TakeAllWaitingOnLoop();
  for (OperationTable::Waiting& one : waiting) {
    loop_->CancelTimerOnLoop(one.timer);
    const Status& hopeless = HopelessOnLoop(one.operation);
    if (hopeless.ok()) {
      RunOnLoop(one.handle, operations_.NamedOnLoop(one.operation.name), one.id.number, std::move(one.operation));
    } else {
      FinishOnLoop(&one.operation, hopeless.WithContext(Title(one.operation)));
    }
  }
}

void Session::StartOnLoop(uint64_t handle, Operation&& operation) {
  KF_DCHECK(loop_->InLoop());
  const Status unnamed = ValidateName(operation, prefix_.size());
  if (!unnamed.ok()) return FinishOnLoop(&operation, unnamed);
  OperationTable::Named* const named = operations_.NamedOnLoop(operation.name);
  const uint64_t number = named->begun++;
  const Status& hopeless = HopelessOnLoop(operation);
  if (!hopeless.ok()) {
    const Status why = hopeless.WithContext(Title(operation));
    TellPartnersOnLoop(operations_.IdOf(operation.name, number), operation, why);
    return FinishOnLoop(&operation, why);
  }
  if (agreed_) return RunOnLoop(handle, named, number, std::move(operation));
  const Deadline deadline = After(TimeoutOf(operation));
  const EventLoop::TimerId timer = loop_->RunAtOnLoop(deadline, [this, handle] {
    const OperationTable::Waiting* waiting = operations_.FindWaitingOnLoop(handle);
    DropWaitingOnLoop(waiting,
                      DeadlineExceededError(Linked(
                          "not-together", Title(waiting->operation) + " at rank " + std::to_string(rank_) +
                                              ": the peers have not come together yet: " + watch_->MissingOnLoop())),
                      /*tell=*/true);
  });
  operations_.WaitOnLoop({handle, operations_.IdOf(operation.name, number), std::move(operation), timer});
}

Seconds Session::TimeoutOf(const Operation& operation) const {
  return operation.timeout > 0 ? Seconds(std::min(operation.timeout, kMaxTimeout)) : options_.timeout;
}

// Why it cannot succeed; it holds until a peer leaves. A peer that has left has sent its part to its neighbours before,
// if they are to have it: their messages tell.
const Status& Session::HopelessOnLoop(const Operation& operation) const {
  KF_DCHECK(loop_->InLoop());
  if (!broken_.ok() || operation.mixing) return broken_;
  for (const auto& [rank, why] : left_) {
    if (ArePartners(operation, rank_, rank)) return why;
  }
  return broken_;
}

void Session::DropWaitingOnLoop(const OperationTable::Waiting* waiting, const Status& status, bool tell) {
  KF_DCHECK(loop_->InLoop());
  if (tell) TellPartnersOnLoop(waiting->id, waiting->operation, status);
  router_->RefuseOnLoop(waiting->id);
  loop_->CancelTimerOnLoop(waiting->timer);
  Operation operation = operations_.TakeWaitingOnLoop(waiting);
  FinishOnLoop(&operation, status);
}

void Session::RunOnLoop(uint64_t handle, OperationTable::Named* named, uint64_t number, Operation&& operation) {
  KF_DCHECK(loop_->InLoop());
  const Seconds timeout = TimeoutOf(operation);
  if (!named->counted) named->counted = counters_->Of(operation.name);
  operation.counted = named->counted;
  bool repeats = false;
  RunningOperation* const running = operations_.PlaceOnLoop(handle, named, number, std::move(operation), &repeats);
  const Status invalid = repeats ? OkStatus() : Validate(running->operation(), size(), rank_);
  if (!invalid.ok()) return running->FailOnLoop(invalid, /*tell=*/true);
  const Status early = operations_.TakeEarlyFailureOnLoop(running->id());
  if (!early.ok()) {
    // Of neighbours only this peer knows those that are its own.
    running->FailOnLoop(early, /*tell=*/running->operation().mixing != nullptr);
  } else {
    watch_->AddOnLoop(running, timeout);
    AskThoseWhoMayMissItOnLoop(running->id(), running->signature());
    running->StartOnLoop();
  }
}

void Session::TellAllOnLoop(const OperationId& id, const Status& status, bool passed_on) {
  KF_DCHECK(loop_->InLoop());
  if (ended_) return;
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != rank_) router_->NotifyFailureOnLoop(peers_[rank], id, status, passed_on);
  }
}

void Session::TellPartnersOnLoop(const OperationId& id, const Operation& operation, const Status& status,
                                 bool passed_on) {
  KF_DCHECK(loop_->InLoop());
  if (ended_) return;
  for (int rank = 0; rank < size(); ++rank) {
    if (rank == rank_ || !ArePartners(operation, rank_, rank)) continue;
    router_->NotifyFailureOnLoop(peers_[rank], id, status, passed_on);
  }
}

// Peers that differ may differ about who their partners are, too. Neighbours differ in pairs, and others may go on.
void Session::TellOfFailureOnLoop(const RunningOperation& which, const Status& status) {
  KF_DCHECK(loop_->InLoop());
  const int other = which.differs_from();
  if (other >= 0 && !which.operation().mixing) return TellAllOnLoop(which.id(), status, /*passed_on=*/false);
  TellPartnersOnLoop(which.id(), which.operation(), status);
  if (ended_ || other < 0 || ArePartners(which.operation(), rank_, other)) return;
  router_->NotifyFailureOnLoop(peers_[other], which.id(), status, /*passed_on=*/false);
}

void Session::EndedOnLoop(RunningOperation* running, const Status& status) {
  KF_DCHECK(loop_->InLoop());
  if (watch_) watch_->RemoveOnLoop(running);
  if (status.ok() && !ended_ && operations_.RestOnLoop(running)) {
    FinishOnLoop(running->ended_operation(), status);
  } else {
    Operation operation = operations_.TakeEndedOnLoop(running);
    FinishOnLoop(&operation, status);
  }
  if (operations_.runs_any() || idle_.empty()) return;
  for (const std::function<void()>& idle : std::exchange(idle_, {})) idle();
}

void Session::FinishOnLoop(Operation* operation, const Status& status) {
  KF_DCHECK(loop_->InLoop());
  if (!status.ok() && status.code() != Code::kCancelled && !operation->of_session && first_failure_) {
    std::exchange(first_failure_, nullptr)(status);
  }
  Finish(operation, status);
}

void Session::Finish(Operation* operation, const Status& status) {
  const uint64_t bytes = status.ok() ? TotalCount(*operation) * SizeOf(operation->dtype) : 0;
  OperationCounters::OfName* const counted = operation->counted ? operation->counted : counters_->Of(operation->name);
  counters_->Ended(counted, status.ok(), operation->began, bytes, static_cast<int>(strategy()));
  const StatusCallback done = std::move(operation->done);
  if (operation->of_session && ended_) return;  // the session, which asked for it, has ended
  if (!operation->of_session) --shared_->pending;
  done(status);
}

void Session::WhenIdleOnLoop(std::function<void()> idle) {
  KF_DCHECK(loop_->InLoop());
  Session* busy = operations_.runs_any() ? this : nullptr;
  ForGroupsOnLoop([&](Session* group) { busy = group->operations_.runs_any() ? group : busy; });
  if (busy == nullptr) return idle();
  busy->idle_.push_back([self = shared_from_this(), idle = std::move(idle)] { self->WhenIdleOnLoop(idle); });
}

void Session::EndOnLoop() {
  KF_DCHECK(loop_->InLoop());
  ForGroupsOnLoop([](Session* group) { group->EndOnLoop(); });
  ended_ = true;
  operations_.ForgetRestingOnLoop();
  watch_.reset();
  agreement_.reset();
  if (pinger_) pinger_->CloseOnLoop();
  pinger_.reset();
  terms_.direct.reset();
  previous_.reset();
}

Status Session::OnAskOnLoop(const PeerId& from, const OperationId& id, const Signature& theirs) {
  KF_DCHECK(loop_->InLoop());
  if (StandsInForOnLoop(from, id)) return StandInOnLoop(id, theirs);
  if (Session* group = GroupOfOnLoop(id)) return group->OnAskOnLoop(from, id, theirs);
  if (previous_ && id.epoch == previous_->epoch_ && previous_->operations_.WasCalled(id)) return OkStatus();
  if (id.epoch != epoch_) return Status(Code::kNotFound, "is in epoch " + std::to_string(epoch_));
  if (RunningOperation* running = operations_.FindRunningOnLoop(id)) running->CompareOnLoop(from, theirs);
  if (operations_.WasCalled(id)) return OkStatus();
  if (!operations_.runs_any()) return Status(Code::kNotFound, "is in no collective");
  return Status(Code::kNotFound, "waits in " + operations_.front().title());
}

void Session::OnAnswerOnLoop(const PeerId& from, const OperationId& id, const Status& answer) {
  KF_DCHECK(loop_->InLoop());
  if (Session* group = GroupOfOnLoop(id)) return group->OnAnswerOnLoop(from, id, answer);
  if (pinger_ && pinger_->OnAnswerOnLoop(from, id)) return;
  if (watch_) watch_->OnAnswerOnLoop(from, id, answer);
  const auto interrupter = interrupters_.find(peers_.RankOf(from));
  if (interrupter != interrupters_.end() && !answer.ok()) FailOnLoop(id, interrupter->second);
  if (answer.code() == Code::kFailedPrecondition && HasJoinedOnLoop(from)) RefusedOnLoop(from, id, answer);
}

}  // namespace kungfu
