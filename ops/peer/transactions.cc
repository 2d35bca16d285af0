#include "ops/peer/transactions.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <set>

#include "ops/base/copy.h"
#include "ops/base/hmac.h"
#include "ops/base/logging.h"

namespace kungfu {
namespace {

// How long the runner may take to say who survives: within that it knows that a process, or a host, is gone
// (kungfu_tf/launcher/deciding/leader_of_others.py).
constexpr Seconds kUntilSurvivors{10};
constexpr char kVoteName[] = "kungfu/all have ";

// The vote on an exchange: short names stay readable.
std::string VoteName(const std::string& exchange) {
  if (exchange.size() + sizeof(kVoteName) <= kMaxNameSize) return kVoteName + exchange;
  Sha256 hash;
  hash.Update(exchange.data(), exchange.size());
  const Sha256Digest digest = hash.Finish();
  std::string name = kVoteName;
  for (const uint8_t byte : digest) name += std::to_string(byte) + ".";
  return name;
}

// Calls `visit(span, bytes)` for the tensors that the operation changes in place.
template <typename Visit>
void ForEachInPlace(const Operation& operation, Visit visit) {
  const size_t element = SizeOf(operation.dtype);
  for (const Span& span : operation.spans) {
    if (span.count > 0 && span.send == span.recv) visit(span, span.count * element);
  }
}

bool HasRoot(Kind kind) { return kind == Kind::kBroadcast || kind == Kind::kReduce || kind == Kind::kGather; }

}  // namespace

Transactions::Transactions(EventLoop* loop, bool repeats, Current session)
    : loop_(loop), repeats_(repeats), session_(std::move(session)) {}

Transactions::~Transactions() = default;

bool Transactions::Exchange::Has(const std::string& operation) const {
  return std::any_of(calls.begin(), calls.end(), [&](const Call* call) { return call->operation.name == operation; });
}

// Its root is one among the peers that the caller knows.
uint64_t Transactions::Start(Operation&& operation) {
  const uint64_t handle = next_handle_++;
  TakeDigest(&operation);
  auto owned = std::make_unique<Call>();
  owned->handle = handle;
  if (repeats_ && HasRoot(operation.kind) && operation.root > 0) {
    const std::shared_ptr<Session> now = session_();
    if (operation.root < now->size()) owned->root = now->peers()[operation.root];
  }
  owned->done = std::exchange(operation.done, nullptr);
  owned->operation = std::move(operation);
  if (loop_->MayRunAtOnce()) {
    StartOnLoop(std::move(owned));
    return handle;
  }
  // std::function must be copyable; the call travels by pointer.
  auto shared = std::make_shared<std::unique_ptr<Call>>(std::move(owned));
  if (!loop_->Post([this, shared] { StartOnLoop(std::move(*shared)); })) {
    (*shared)->done(CancelledError(Title((*shared)->operation) + ": this peer has shut down"));
  }
  return handle;
}

void Transactions::StartOnLoop(std::unique_ptr<Call> owned) {
  KF_DCHECK(loop_->InLoop());
  Call* const call = owned.get();
  call->exchange = JoinOnLoop(call);
  calls_[call->handle] = std::move(owned);
  const Status saved = repeats_ ? Save(call) : OkStatus();
  if (!saved.ok()) return FailExchangeOnLoop(call->exchange, saved);
  if (!surviving_) RunOnLoop(call);
}

// The oldest exchange of its name that lacks it, or a new one.
Transactions::Exchange* Transactions::JoinOnLoop(Call* call) {
  KF_DCHECK(loop_->InLoop());
  const Operation& operation = call->operation;
  const std::string& name = operation.exchange_size > 1 ? operation.exchange : operation.name;
  Exchange* found = nullptr;
  for (auto at = exchanges_.lower_bound({name, 0}); at != exchanges_.end() && at->first.first == name; ++at) {
    Exchange* const exchange = at->second.get();
    if (static_cast<int>(exchange->calls.size()) == exchange->size || exchange->Has(operation.name)) continue;
    found = exchange;
    break;
  }
  if (found == nullptr) {
    auto owned = std::make_unique<Exchange>();
    found = owned.get();
    found->name = name;
    found->number = begun_[name]++;
    found->size = std::max(1, operation.exchange_size);
    exchanges_[{name, found->number}] = std::move(owned);
  }
  found->calls.push_back(call);
  return found;
}

Status Transactions::Save(Call* call) {
  uint64_t bytes = 0;
  ForEachInPlace(call->operation, [&](const Span&, uint64_t size) { bytes += size; });
  if (bytes == 0) return OkStatus();
  call->saved = spares_.Take(bytes);
  if (!call->saved) return ResourceExhaustedError(Title(call->operation) + ": no memory to keep its input in");
  char* to = call->saved.get();
  ForEachInPlace(call->operation, [&](const Span& span, uint64_t size) {
    CopyBytes(to, static_cast<const char*>(span.send), size);
    to += size;
  });
  return OkStatus();
}

// The operation for the session. Its results stay here until they are delivered, except for those with a place.
Operation Transactions::Repeatable(Call* call) {
  const size_t element = SizeOf(call->operation.dtype);
  if (call->saved && call->has_run) {
    const char* from = call->saved.get();
    ForEachInPlace(call->operation, [&](const Span& span, uint64_t size) {
      CopyBytes(static_cast<char*>(span.recv), from, size);
      from += size;
    });
  }
  call->has_run = true;
  Operation operation = call->operation;
  if (operation.allocate) {
    operation.allocate = [call, element](const std::vector<uint64_t>& counts) -> void* {
      uint64_t total = 0;
      for (const uint64_t count : counts) total += count;
      call->counts = counts;
      call->result.reset(new (std::nothrow) char[total * element]);
      return call->result.get();
    };
  }
  if (operation.measured) operation.measured = [call](const Norms& norms) { call->norms = norms; };
  return operation;
}

// Rank 0 is whoever is the first; any other rank stands for a peer.
bool Transactions::FindRoot(const Call* call, const Session& session, Operation* operation) {
  if (!call->root) return true;
  operation->root = session.peers().RankOf(*call->root);
  return operation->root >= 0;
}

void Transactions::RunOnLoop(Call* call) {
  KF_DCHECK(loop_->InLoop());
  const uint64_t handle = call->handle;
  const std::shared_ptr<Session> session = session_();
  Operation operation = repeats_ ? Repeatable(call) : std::move(call->operation);
  if (!repeats_) call->operation.name = operation.name;
  if (repeats_ && !FindRoot(call, *session, &operation)) {
    const Status lost =
        UnavailableError(Title(call->operation) + ": its root, " + call->root->ToString() + ", is lost");
    return FailExchangeOnLoop(call->exchange, lost);
  }
  operation.done = [this, handle](const Status& status) { EndedOnLoop(handle, status); };
  call->stage = Stage::kRunning;
  call->session = session;
  const uint64_t run = session->RunAtOnceOnLoop(std::move(operation));
  const auto still = calls_.find(handle);
  if (still != calls_.end()) still->second->run = run;
}

void Transactions::EndedOnLoop(uint64_t handle, const Status& status) {
  KF_DCHECK(loop_->InLoop());
  const auto found = calls_.find(handle);
  if (found == calls_.end()) return;
  Call* const call = found->second.get();
  call->session.reset();
  if (call->exchange == nullptr) return FinishOnLoop(call, status.ok() ? Status(call->failure) : status);
  if (status.ok()) {
    call->stage = Stage::kComplete;
    Exchange* const exchange = call->exchange;
    ++exchange->complete;
    if (exchange->is_complete()) SettleOnLoop(exchange);
    return;
  }
  call->stage = Stage::kWaiting;
  call->failure = status;
  if (MayBeRepeated(status)) return WaitForSurvivorsOnLoop();
  FailExchangeOnLoop(call->exchange, status);
}

// Votes on exchanges of one name follow each other, so that peers never take one for another.
void Transactions::SettleOnLoop(Exchange* exchange) {
  KF_DCHECK(loop_->InLoop());
  if (!repeats_) return DeliverOnLoop(exchange);
  if (surviving_ || exchange->votes) return;
  if (session_()->size() == 1) return DeliverOnLoop(exchange);
  const auto first = exchanges_.lower_bound({exchange->name, 0});
  if (first->second.get() == exchange) VoteOnLoop(exchange);
}

void Transactions::VoteOnLoop(Exchange* exchange) {
  KF_DCHECK(loop_->InLoop());
  const Key key{exchange->name, exchange->number};
  Operation vote;
  vote.kind = Kind::kBarrier;
  vote.name = VoteName(exchange->name);
  vote.step = exchange->number;
  vote.of_core = true;
  vote.done = [this, key](const Status& status) { VotedOnLoop(key, status); };
  exchange->votes = true;
  const std::shared_ptr<Session> session = exchange->session = session_();
  const uint64_t handle = session->RunAtOnceOnLoop(std::move(vote));
  const auto still = exchanges_.find(key);
  if (still != exchanges_.end()) still->second->vote = handle;
}

void Transactions::VotedOnLoop(const Key& key, const Status& status) {
  KF_DCHECK(loop_->InLoop());
  const auto found = exchanges_.find(key);
  if (found == exchanges_.end()) return;
  Exchange* const exchange = found->second.get();
  exchange->votes = false;
  exchange->session.reset();
  if (status.ok()) return DeliverOnLoop(exchange);
  if (!MayBeRepeated(status)) return FailExchangeOnLoop(exchange, status);
  for (Call* call : exchange->calls) call->failure = status;
  WaitForSurvivorsOnLoop();
}

Status Transactions::HandOver(Call* call) {
  Operation& operation = call->operation;
  if (call->norms) operation.measured(*call->norms);
  if (call->counts.empty()) return OkStatus();
  uint64_t total = 0;
  for (const uint64_t count : call->counts) total += count;
  void* const place = operation.allocate(call->counts);
  if (place == nullptr && total > 0) return ResourceExhaustedError(Title(operation) + ": no memory for the result");
  if (total > 0) std::memcpy(place, call->result.get(), total * SizeOf(operation.dtype));
  return OkStatus();
}

void Transactions::DeliverOnLoop(Exchange* exchange) {
  KF_DCHECK(loop_->InLoop());
  const std::string name = exchange->name;
  const std::vector<Call*> calls = std::move(exchange->calls);
  exchanges_.erase({name, exchange->number});
  for (Call* call : calls) FinishOnLoop(call, HandOver(call));
  SettleNextOnLoop(name);
}

// The oldest exchange of a name may have waited for an older one.
void Transactions::SettleNextOnLoop(const std::string& name) {
  const auto next = exchanges_.lower_bound({name, 0});
  if (next != exchanges_.end() && next->first.first == name && next->second->is_complete()) {
    SettleOnLoop(next->second.get());
  }
}

// An operation that the session still works on ends when that is over: its memory is in use.
void Transactions::FailExchangeOnLoop(Exchange* exchange, const Status& why) {
  KF_DCHECK(loop_->InLoop());
  const std::string name = exchange->name;
  const std::vector<Call*> calls = std::move(exchange->calls);
  const Key key{name, exchange->number};
  if (repeats_) failed_.insert(key);
  exchanges_.erase(key);
  std::vector<Call*> over;
  for (Call* call : calls) {
    call->exchange = nullptr;
    if (call->stage != Stage::kRunning) {
      over.push_back(call);
    } else {
      call->failure = why;
    }
  }
  for (Call* call : over) FinishOnLoop(call, why);
  SettleNextOnLoop(name);
}

void Transactions::FinishOnLoop(Call* call, const Status& status) {
  KF_DCHECK(loop_->InLoop());
  const StatusCallback done = std::move(call->done);
  calls_.erase(call->handle);
  done(status);
}

void Transactions::Cancel(uint64_t handle, const Status& cause) {
  loop_->Post([this, handle, cause] {
    const auto found = calls_.find(handle);
    if (found == calls_.end()) return;
    Call* const call = found->second.get();
    Exchange* const exchange = call->exchange;
    if (call->stage == Stage::kRunning) return call->session->Cancel(call->run, cause);
    if (exchange->votes) return exchange->session->Cancel(exchange->vote, cause);
    FailExchangeOnLoop(exchange, cause.ok() ? CancelledError(Title(call->operation) + " was cancelled") : cause);
  });
}

void Transactions::FailOnLoop(const Status& why, const Era& era) {
  KF_DCHECK(loop_->InLoop());
  while (!exchanges_.empty()) FailExchangeOnLoop(exchanges_.rbegin()->second.get(), why);
  begun_.clear();
  failed_.clear();
  era_ = era;
  gave_up_ = false;
}

void Transactions::GiveUpOnLoop(const Status& why) {
  KF_DCHECK(loop_->InLoop());
  FailOnLoop(why, era_);
  gave_up_ = true;
}

void Transactions::NeverRepeatOnLoop() {
  KF_DCHECK(loop_->InLoop());
  never_ = true;
  surviving_ = false;
  FailWaitingOnLoop();
}

bool Transactions::MayBeRepeated(const Status& status) const {
  return repeats_ && (surviving_ || (!never_ && status.code() == Code::kUnavailable));
}

void Transactions::WaitForSurvivorsOnLoop() {
  KF_DCHECK(loop_->InLoop());
  if (surviving_ || waits_) return;
  waits_ = true;
  timer_ = loop_->RunAtOnLoop(After(kUntilSurvivors), [this] { FailWaitingOnLoop(); });
}

// Whatever waits for survivors fails with what it has failed with before.
void Transactions::FailWaitingOnLoop() {
  KF_DCHECK(loop_->InLoop());
  if (std::exchange(waits_, false)) loop_->CancelTimerOnLoop(timer_);
  std::vector<std::pair<Key, Status>> failed;
  for (const auto& [handle, call] : calls_) {
    const bool is_healthy = call->failure.ok() && call->stage != Stage::kWaiting;
    if (call->exchange == nullptr || call->stage == Stage::kRunning || is_healthy) continue;
    const Status unmet = UnavailableError(Title(call->operation) + ": the survivors have not met");
    failed.push_back({{call->exchange->name, call->exchange->number}, call->failure.ok() ? unmet : call->failure});
  }
  for (const auto& [key, why] : failed) {
    const auto found = exchanges_.find(key);
    if (found != exchanges_.end()) FailExchangeOnLoop(found->second.get(), why);
  }
}

void Transactions::LostOnLoop() {
  KF_DCHECK(loop_->InLoop());
  if (std::exchange(waits_, false)) loop_->CancelTimerOnLoop(timer_);
  surviving_ = true;
  meeting_.reset();
}

}  // namespace kungfu
