#include "ops/collective/session.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ops/base/logging.h"
#include "ops/collective/alone.h"
#include "ops/collective/direct_mover.h"
#include "ops/collective/graph_executor.h"

namespace kungfu {
namespace {

constexpr char kAgreementName[] = "kungfu/the start of the session";
// Failures of operations that have not begun here: more than this many are not remembered.
constexpr size_t kMaxFailedEarly = 1 << 14;
// What rank 0 may choose: the bounds of KUNGFU_CHUNK_BYTES.
constexpr uint64_t kMinChunk = 4 << 10, kMaxChunk = 1 << 30;
constexpr double kMaxTimeout = 1e9;
// Of the bits of a handle, those that count within an epoch, and the highest, which is not ours.
constexpr int kHandleBits = 40;
constexpr uint64_t kForeignBit = uint64_t{1} << 63;

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
      movers_([this](Movement movement, int, Conversation* conversation) {
        return MakeMover(std::move(movement), conversation);
      }),
      graph_movers_([loop](Movement movement, int rank, Conversation* conversation) {
        return MakeGraphExecutor(loop, std::move(movement), rank, conversation);
      }),
      first_failure_(std::move(first_failure)),
      on_interrupted_(std::move(interrupted)),
      next_handle_(((static_cast<uint64_t>(epoch) << kHandleBits) & ~kForeignBit) + 1) {}

Session::~Session() = default;

uint64_t Session::Start(Operation operation) {
  const uint64_t handle = next_handle_++;
  operation.began = Clock::now();
  counters_->Began(operation.name, operation.began);
  if (size() == 0) {
    const std::string why = ": this peer takes no part any more, since epoch " + std::to_string(epoch_);
    Finish(&operation, Status(Code::kAborted, Title(operation) + why));
    return handle;
  }
  if (size() == 1) {
    Status status = ValidateName(operation);
    if (status.ok()) status = Validate(operation, 1);
    if (status.ok()) status = CompleteAlone(operation);
    Finish(&operation, status);
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
    self->pinger_->PingOnLoop(After(timeout), std::move(*shared));
  });
  if (!posted) (*shared)(seconds);
}

void Session::Cancel(uint64_t handle, const Status& cause) {
  if (size() <= 1) return;
  loop_->Post([this, self = shared_from_this(), handle, cause] {
    const std::string by = " was cancelled at rank " + std::to_string(rank_) + " (" + peers_[rank_].ToString() + ")";
    const Status why = cause.ok() ? CancelledError(by) : Status(cause.code(), by + ", because " + cause.message());
    const auto because = [&why](const std::string& title) { return Status(why.code(), title + why.message()); };
    const auto running = running_.find(handle);
    if (running != running_.end()) {
      running->second->FailOnLoop(because(running->second->title()), /*tell=*/true);
    } else if (const Waiting* waiting = FindWaitingOnLoop([&](const Waiting& one) { return one.handle == handle; })) {
      DropWaitingOnLoop(waiting, because(Title(waiting->operation)), /*tell=*/true);
    }
  });
}

void Session::BeginOnLoop(std::shared_ptr<Session> previous) {
  KF_DCHECK(loop_->InLoop());
  previous_ = std::move(previous);
  watch_ = std::make_unique<StallWatch>(loop_, router_, peers_, rank_, options_.stall_warning, options_.silence_timeout,
                                        [this](int rank, const Status& why) { GiveUpOnLoop(rank, why); });
  pinger_ = std::make_unique<Pinger>(loop_, router_, peers_, rank_, epoch_);
  router_->BeginEpochOnLoop(epoch_, peers_, this);
  if (size() > 1) {
    AgreeOnLoop();
  } else {
    OpenOnLoop();
  }
}

// Rank 0 says which strategy is used; the message takes a star, which needs no agreement. The others knock at its door
// meanwhile: so both sides learn at once if they cannot come together, e.g. for different secrets.
void Session::AgreeOnLoop() {
  KF_DCHECK(loop_->InLoop());
  const StrategyName wanted = options_.strategy == StrategyName::kAuto ? Choose(peers_) : options_.strategy;
  const bool direct = options_.arena != nullptr && options_.strategy == StrategyName::kAuto &&
                      peers_.HostCount() == 1 && size() <= DirectGroup::kMostPeers;
  proposal_ = {static_cast<uint64_t>(wanted), options_.chunk_bytes, direct, options_.direct_bytes};
  routes_ = std::make_unique<Routes>(StrategyName::kStar, peers_, rank_, options_.chunk_bytes);
  Operation agree;
  agree.kind = Kind::kBroadcast;
  agree.name = kAgreementName;
  agree.of_session = true;
  agree.dtype = DType::kUint8;
  agree.spans = {{&proposal_, &proposal_, sizeof(proposal_)}};
  agree.done = [this](const Status& status) { AgreedOnLoop(status); };
  if (rank_ != 0) router_->AskOnLoop(peers_[0], AgreementId(), SignatureOf(agree));
  const OperationId id = NumberOnLoop(agree.name);
  RunOnLoop(next_handle_++, id, std::move(agree));
}

void Session::AgreedOnLoop(const Status& status) {
  KF_DCHECK(loop_->InLoop());
  if (!status.ok()) {
    if (broken_.ok()) broken_ = status.WithContext("the peers have not come together");
  } else if (proposal_.strategy == 0 || proposal_.strategy >= static_cast<uint64_t>(kNumStrategies) ||
             proposal_.chunk_bytes < kMinChunk || proposal_.chunk_bytes > kMaxChunk) {
    broken_ = InternalError("rank 0 uses strategy number " + std::to_string(proposal_.strategy) + " with chunks of " +
                            std::to_string(proposal_.chunk_bytes) + " bytes, which cannot be done here");
  } else {
    const StrategyName chosen = static_cast<StrategyName>(proposal_.strategy);
    if (options_.strategy != StrategyName::kAuto && options_.strategy != chosen) {
      KF_LOG(WARNING) << "strategy " << Name(chosen) << " of rank 0 is used, not " << Name(options_.strategy)
                      << " of rank " << rank_;
    }
    if (rank_ == 0) KF_LOG(INFO) << "strategy " << Name(chosen) << " for " << peers_.ToString();
    routes_ = std::make_unique<Routes>(chosen, peers_, rank_, proposal_.chunk_bytes);
    chosen_ = chosen;
    if (proposal_.direct != 0) return MeetOnLoop();
  }
  OpenOnLoop();
}

void Session::MeetOnLoop() {
  KF_DCHECK(loop_->InLoop());
  const auto run = [this](Operation operation) {
    operation.of_session = true;
    const OperationId id = NumberOnLoop(operation.name);
    RunOnLoop(next_handle_++, id, std::move(operation));
  };
  meeting_ = std::make_unique<HostMeeting>(loop_, options_.arena, rank_, size(), run,
                                           [this](StatusOr<std::unique_ptr<DirectGroup>> group) {
                                             if (group.ok()) direct_ = std::move(*group);
                                             if (!group.ok() && broken_.ok()) broken_ = group.status();
                                             meeting_.reset();
                                             OpenOnLoop();
                                           });
  meeting_->StartOnLoop();
}

std::unique_ptr<Mover> Session::MakeMover(Movement movement, Conversation* conversation) {
  uint64_t bytes = 0;
  for (const Chunk& chunk : movement.chunks) bytes += TotalSize(chunk.send);
  if (direct_ && movement.all_reduce && bytes >= proposal_.direct_bytes) {
    return MakeDirectMover(loop_, direct_.get(), std::move(movement), conversation, graph_movers_, counters_);
  }
  return graph_movers_(std::move(movement), rank_, conversation);
}

// What was called before the agreement begins.
void Session::OpenOnLoop() {
  KF_DCHECK(loop_->InLoop());
  agreed_ = true;
  std::list<Waiting> waiting;
  waiting.swap(waiting_);
  for (Waiting& one : waiting) {
    loop_->CancelTimerOnLoop(one.timer);
    if (broken_.ok()) {
      RunOnLoop(one.handle, one.id, std::move(one.operation));
    } else {
      FinishOnLoop(&one.operation, BrokenStatus(one.operation));
    }
  }
}

void Session::StartOnLoop(uint64_t handle, Operation operation) {
  KF_DCHECK(loop_->InLoop());
  const Status unnamed = ValidateName(operation);
  if (!unnamed.ok()) return FinishOnLoop(&operation, unnamed);
  const OperationId id = NumberOnLoop(operation.name);
  if (!broken_.ok()) {
    TellOnLoop(id, BrokenStatus(operation));
    return FinishOnLoop(&operation, BrokenStatus(operation));
  }
  if (agreed_) return RunOnLoop(handle, id, std::move(operation));
  const Deadline deadline = After(TimeoutOf(operation));
  const EventLoop::TimerId timer = loop_->RunAtOnLoop(deadline, [this, handle] {
    const Waiting* waiting = FindWaitingOnLoop([&](const Waiting& one) { return one.handle == handle; });
    DropWaitingOnLoop(
        waiting,
        DeadlineExceededError(Title(waiting->operation) + " at rank " + std::to_string(rank_) +
                              ": the peers have not come together yet: " + watch_->MissingOnLoop(AgreementId())),
        /*tell=*/true);
  });
  waiting_.push_back({handle, id, std::move(operation), timer});
}

OperationId Session::NumberOnLoop(const std::string& name) {
  KF_DCHECK(loop_->InLoop());
  return {epoch_, numbers_[name]++, name};
}

Seconds Session::TimeoutOf(const Operation& operation) const {
  return operation.timeout > 0 ? Seconds(std::min(operation.timeout, kMaxTimeout)) : options_.timeout;
}

Status Session::BrokenStatus(const Operation& operation) const { return broken_.WithContext(Title(operation)); }

const Session::Waiting* Session::FindWaitingOnLoop(const std::function<bool(const Waiting&)>& matches) const {
  KF_DCHECK(loop_->InLoop());
  const auto it = std::find_if(waiting_.begin(), waiting_.end(), matches);
  return it == waiting_.end() ? nullptr : &*it;
}

void Session::DropWaitingOnLoop(const Waiting* waiting, const Status& status, bool tell) {
  KF_DCHECK(loop_->InLoop());
  if (tell) TellOnLoop(waiting->id, status);
  router_->RefuseOnLoop(waiting->id);
  loop_->CancelTimerOnLoop(waiting->timer);
  const auto it = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& one) { return &one == waiting; });
  Operation operation = std::move(it->operation);
  waiting_.erase(it);
  FinishOnLoop(&operation, status);
}

void Session::RunOnLoop(uint64_t handle, const OperationId& id, Operation operation) {
  KF_DCHECK(loop_->InLoop());
  const Seconds timeout = TimeoutOf(operation);
  const Status invalid = Validate(operation, size());
  auto owned = std::make_unique<RunningOperation>(
      loop_, router_, routes_.get(), peers_, movers_, handle, id, std::move(operation),
      [this](RunningOperation* which, const Status& status) { TellOnLoop(which->id(), status); },
      [this](RunningOperation* which, Status status) { EndedOnLoop(which, status); });
  RunningOperation* running = owned.get();
  running_[handle] = std::move(owned);
  by_id_[id] = running;
  const auto early = failed_early_.find(id);
  if (!invalid.ok()) {
    running->FailOnLoop(invalid, /*tell=*/true);
  } else if (early != failed_early_.end()) {
    running->FailOnLoop(early->second, /*tell=*/false);
    failed_early_.erase(early);
  } else {
    watch_->AddOnLoop(running, timeout);
    AskInterruptersOnLoop(id, running->signature());
    running->StartOnLoop();
  }
}

void Session::TellOnLoop(const OperationId& id, const Status& status, bool passed_on) {
  KF_DCHECK(loop_->InLoop());
  if (ended_) return;
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != rank_) router_->NotifyFailureOnLoop(peers_[rank], id, status, passed_on);
  }
}

void Session::EndedOnLoop(RunningOperation* running, const Status& status) {
  KF_DCHECK(loop_->InLoop());
  if (watch_) watch_->RemoveOnLoop(running);
  by_id_.erase(running->id());
  Operation operation = running->TakeOperation();
  running_.erase(running->handle());
  FinishOnLoop(&operation, status);
  if (running_.empty() && idle_) std::exchange(idle_, nullptr)();
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
  counters_->Ended(operation->name, status.ok(), operation->began, bytes, static_cast<int>(strategy()));
  const StatusCallback done = std::move(operation->done);
  done(status);
}

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
  BreakOnLoop(why, /*tell=*/true);
}

// The failure of the agreement stands for that of the session.
OperationId Session::AgreementId() const { return {epoch_, 0, kAgreementName}; }

// Nor is it a name that the interruption could share with an operation.
OperationId Session::InterruptId() const { return {epoch_, 1, kAgreementName}; }

void Session::InterruptOnLoop(const Status& why) {
  KF_DCHECK(loop_->InLoop());
  if (std::exchange(gave_up_, true)) return;
  interrupted_ = true;
  TellOnLoop(InterruptId(), why);
  const Status given_up = CancelledError("given up, because " + why.message());
  BreakOnLoop(given_up, /*tell=*/false);
  if (on_interrupted_) on_interrupted_(given_up);
}

void Session::InterruptedOnLoop(int rank, const Status& why) {
  KF_DCHECK(loop_->InLoop());
  interrupted_ = true;
  interrupters_.emplace(rank, why);
  for (const auto& [id, running] : by_id_) router_->AskOnLoop(peers_[rank], id, running->signature());
  for (const Waiting& one : waiting_) router_->AskOnLoop(peers_[rank], one.id, SignatureOf(one.operation));
  if (on_interrupted_) on_interrupted_(why);
}

void Session::AskInterruptersOnLoop(const OperationId& id, const Signature& signature) {
  KF_DCHECK(loop_->InLoop());
  for (const auto& [rank, why] : interrupters_) router_->AskOnLoop(peers_[rank], id, signature);
}

void Session::FailOnLoop(const OperationId& id, const Status& status) {
  KF_DCHECK(loop_->InLoop());
  const auto running = by_id_.find(id);
  const Waiting* waiting = FindWaitingOnLoop([&](const Waiting& one) { return one.id == id; });
  if (running != by_id_.end()) {
    running->second->FailOnLoop(status.WithContext(running->second->title()), /*tell=*/true);
  } else if (waiting) {
    DropWaitingOnLoop(waiting, status.WithContext(Title(waiting->operation)), /*tell=*/true);
  }
}

// The first reason stays; what is pending ends in any case.
void Session::BreakOnLoop(const Status& why, bool tell) {
  KF_DCHECK(loop_->InLoop());
  if (broken_.ok()) broken_ = why;
  while (!waiting_.empty()) {
    const Waiting* waiting = &waiting_.front();
    DropWaitingOnLoop(waiting, why.WithContext(Title(waiting->operation)), tell);
  }
  for (const auto& [handle, running] : running_) {
    running->FailOnLoop(why.WithContext(running->title()), tell);
  }
}

void Session::WhenIdleOnLoop(std::function<void()> idle) {
  KF_DCHECK(loop_->InLoop());
  if (running_.empty()) return idle();
  idle_ = std::move(idle);
}

void Session::EndOnLoop() {
  KF_DCHECK(loop_->InLoop());
  ended_ = true;
  watch_.reset();
  if (pinger_) pinger_->CloseOnLoop();
  pinger_.reset();
  direct_.reset();
  previous_.reset();
}

// What is heard at first hand is passed on: who told us may be gone before it has reached the others.
void Session::OnFailOnLoop(const PeerId& from, const OperationId& id, const Status& status, bool passed_on) {
  KF_DCHECK(loop_->InLoop());
  const std::string teller = passed_on ? "" : " (told by rank " + std::to_string(peers_.RankOf(from)) + ")";
  const Status told(status.code(), status.message() + teller);
  const auto running = by_id_.find(id);
  const Waiting* waiting = FindWaitingOnLoop([&](const Waiting& one) { return one.id == id; });
  if (id == AgreementId()) {
    DieOnLoop(told, /*passed_on=*/true);
  } else if (id == InterruptId()) {
    InterruptedOnLoop(peers_.RankOf(from), told);
  } else if (running != by_id_.end()) {
    if (!passed_on && !running->second->failed()) TellOnLoop(id, told, /*passed_on=*/true);
    running->second->FailOnLoop(told, /*tell=*/false);
  } else if (waiting) {
    if (!passed_on) TellOnLoop(id, told, /*passed_on=*/true);
    DropWaitingOnLoop(waiting, told, /*tell=*/false);
  } else if (!Numbered(id) && failed_early_.size() < kMaxFailedEarly) {
    failed_early_.emplace(id, told);
  }
}

// Whether the operation has been called here.
bool Session::Numbered(const OperationId& id) const {
  const auto number = numbers_.find(id.name);
  return number != numbers_.end() && id.number < number->second;
}

Status Session::OnAskOnLoop(const PeerId& from, const OperationId& id, const Signature& theirs) {
  KF_DCHECK(loop_->InLoop());
  if (previous_ && id.epoch == previous_->epoch_ && previous_->Numbered(id)) return OkStatus();
  if (id.epoch != epoch_) return Status(Code::kNotFound, "is in epoch " + std::to_string(epoch_));
  const auto running = by_id_.find(id);
  if (running != by_id_.end()) running->second->CompareOnLoop(from, theirs);
  if (Numbered(id)) return OkStatus();
  if (running_.empty()) return Status(Code::kNotFound, "is in no collective");
  return Status(Code::kNotFound, "waits in " + running_.begin()->second->title());
}

void Session::OnAnswerOnLoop(const PeerId& from, const OperationId& id, const Status& answer) {
  KF_DCHECK(loop_->InLoop());
  if (pinger_ && pinger_->OnAnswerOnLoop(from, id)) return;
  if (watch_) watch_->OnAnswerOnLoop(from, id, answer);
  const auto interrupter = interrupters_.find(peers_.RankOf(from));
  if (interrupter != interrupters_.end() && !answer.ok()) FailOnLoop(id, interrupter->second);
}

void Session::DieOnLoop(const Status& why, bool passed_on) {
  KF_DCHECK(loop_->InLoop());
  if (!dead_) TellOnLoop(AgreementId(), why, passed_on);
  dead_ = true;
  BreakOnLoop(why, /*tell=*/false);
}

// A peer that left owes nothing but to operations that still await it. One that died ends the session, and all peers
// hear of it from the first that notices: who fails as a consequence, and leaves, is then not taken for the cause.
Status Session::OnPeerLostOnLoop(const PeerId& peer, const Status& why, bool left) {
  KF_DCHECK(loop_->InLoop());
  const int rank = peers_.RankOf(peer);
  const Status status = why.WithContext("rank " + std::to_string(rank) + " (" + peer.ToString() + ")");
  if (!left) {
    DieOnLoop(status, /*passed_on=*/false);
    return why;
  }
  // Who has interrupted the epoch and then left has said why.
  const auto interrupter = interrupters_.find(rank);
  if (broken_.ok()) broken_ = interrupter == interrupters_.end() ? status : interrupter->second;
  return interrupter == interrupters_.end() ? why : interrupter->second;
}

}  // namespace kungfu
