#include "ops/store/p2p.h"

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "ops/base/logging.h"
#include "ops/router/copy_sink.h"

namespace kungfu {
namespace {

constexpr double kMaxTimeout = 1e9;

std::string InSeconds(Seconds seconds) {
  std::ostringstream text;
  text << seconds.count() << " s";
  return text.str();
}

Status ValidateName(const std::string& name) {
  if (!name.empty() && name.size() <= kMaxNameSize) return OkStatus();
  return InvalidArgumentError("a name has 1 to " + std::to_string(kMaxNameSize) + " bytes, not " +
                              std::to_string(name.size()));
}

// `most`: as many peers have been there at once.
Status Validate(const Request& request, int most) {
  if (request.target < 0 || request.target >= request.peers.size()) {
    const bool may_be_lost = request.survives && !request.waits && request.target > 0 && request.target < most;
    return Status(may_be_lost ? Code::kNotFound : Code::kInvalidArgument,
                  "rank " + std::to_string(request.target) + " of " + std::to_string(request.peers.size()) + " peers");
  }
  return ValidateName(request.query.name);
}

}  // namespace

struct P2p::Running {
  Request request;
  std::unique_ptr<Pull> pull;  // null: served here
  EventLoop::TimerId timer;
};

struct P2p::RunningPut {
  Put put;
  uint64_t number = 0;  // in the queue
  EventLoop::TimerId timer;
};

P2p::P2p(EventLoop* loop, Router* router, const PeerId& self, uint64_t epoch, const Options& options,
         OperationCounters* counters)
    : loop_(loop),
      router_(router),
      self_(self),
      options_(options),
      counters_(counters),
      store_(options.window),
      keeper_(router, &store_, [this](const std::string& queue) { RetryPutsOnLoop(queue); }) {
  store_.BeginEpoch(epoch);
}

P2p::~P2p() = default;

void P2p::HasPeers(int size) {
  if (size > most_peers_) most_peers_ = size;
}

StatusOr<uint64_t> P2p::Save(const std::string& name, std::optional<uint64_t> version, const BlobForm& form,
                             const Payload& bytes, int keep) {
  const std::string title = "save of '" + name + "'";
  const Status named = ValidateName(name);
  if (!named.ok()) return named.WithContext(title);
  StatusOr<std::shared_ptr<Blob>> blob = store_.Copy(form, bytes);
  if (!blob.ok()) return blob.status().WithContext(title);
  StatusOr<uint64_t> saved = store_.Save(name, version, std::move(*blob), keep);
  if (!saved.ok()) return saved.status().WithContext(title);
  SavedLater(name);
  return saved;
}

Status P2p::Post(const std::string& outbox, uint64_t epoch, const BlobForm& form, const Payload& bytes, double weight,
                 bool replaces) {
  const std::string title = "post into outbox '" + outbox + "'";
  const Status named = ValidateName(outbox);
  if (!named.ok()) return named.WithContext(title);
  if (!Supports(form.dtype, ReduceOp::kSum)) {
    return InvalidArgumentError(std::string(Name(form.dtype)) + " has no sums").WithContext(title);
  }
  StatusOr<std::shared_ptr<Blob>> blob = store_.Copy(form, bytes);
  if (!blob.ok()) return blob.status().WithContext(title);
  (*blob)->head.weight = weight;
  (*blob)->head.replaces = replaces;
  return store_.PostInto(outbox, epoch, std::move(*blob)).WithContext(title);
}

void P2p::SavedLater(const std::string& name) {
  if (loop_) loop_->Post([this, name] { keeper_.OnSavedOnLoop(name); });
}

uint64_t P2p::Start(Request request) {
  const uint64_t handle = next_handle_++;
  request.survives = options_.survives;
  auto shared = std::make_shared<Request>(std::move(request));
  Status status = Validate(*shared, most_peers_);
  BlobHead head;
  const bool ended = !status.ok() || ServedHere(*shared, &status, &head);
  const auto finish = [this, shared](const Status& outcome, const BlobHead& of_blob) {
    CountEnded(*shared, outcome);
    shared->done(outcome.ok() ? outcome : outcome.WithContext(Title(*shared)), of_blob);
  };
  if (!loop_) {
    finish(status, head);
  } else if (ended) {
    if (!loop_->Post([finish, status, head] { finish(status, head); })) finish(status, head);
  } else if (!loop_->Post([this, handle, shared] { StartOnLoop(handle, std::move(*shared)); })) {
    finish(CancelledError("this peer has shut down"), {});
  }
  return handle;
}

// Whether this peer itself asks and has the answer now. The caller's thread copies: the loop has others to serve.
bool P2p::ServedHere(const Request& request, Status* status, BlobHead* head) {
  if (request.peers[request.target] != self_) return false;
  const StatusOr<BlobRef> blob = store_.Look(request.query);
  *status = blob.status().WithContext("from " + TargetOf(request));
  if (blob.ok()) {
    Copy({(*blob)->view()}, request.places);
    *head = (*blob)->head;
    if (request.query.takes && loop_) loop_->Post([this, queue = request.query.name] { RetryPutsOnLoop(queue); });
  } else if (!loop_ && status->code() == Code::kNotFound && request.waits) {
    *status = Status(Code::kNotFound, status->message() + ", and there is no other peer to do it");
  }
  return blob.ok() || status->code() != Code::kNotFound || !request.waits;
}

void P2p::StartOnLoop(uint64_t handle, Request request) {
  KF_DCHECK(loop_->InLoop());
  auto running = std::make_shared<Running>();
  running->request = std::move(request);
  const Request& the_request = running->request;
  running_[handle] = running;
  const Seconds timeout = TimeoutOf(the_request.timeout);
  const auto warn = [this, &the_request] {
    KF_LOG(WARNING) << Title(the_request) << " from " << TargetOf(the_request) << " has taken "
                    << InSeconds(options_.stall_warning) << ": it is not there yet, or does not come";
  };
  const auto expire = [this, handle, timeout, &the_request] {
    FailOnLoop(handle, DeadlineExceededError("from " + TargetOf(the_request) +
                                             ": it is not there, or did not come, within " + InSeconds(timeout)));
  };
  WatchOnLoop(&running->timer, timeout, warn, expire);
  if (!closed_.ok()) return EndedOnLoop(handle, closed_, {});
  if (!interrupted_.ok()) return EndedOnLoop(handle, interrupted_, {});
  if (the_request.peers[the_request.target] != self_) {
    running->pull = std::make_unique<Pull>(
        loop_, router_, next_number_++, &the_request,
        [this, handle](const Status& status, const BlobHead& head) { EndedOnLoop(handle, status, head); });
    return running->pull->StartOnLoop();
  }
  keeper_.AskOnLoop(handle, the_request.query, [this, handle, running](const StatusOr<BlobRef>& blob) {
    if (blob.ok()) Copy({(*blob)->view()}, running->request.places);
    EndedOnLoop(handle, blob.status().WithContext("from " + TargetOf(running->request)),
                blob.ok() ? (*blob)->head : BlobHead());
  });
}

// The request's data are needed until the loop has returned from it.
void P2p::EndedOnLoop(uint64_t handle, const Status& status, const BlobHead& head) {
  KF_DCHECK(loop_->InLoop());
  const auto it = running_.find(handle);
  const std::shared_ptr<Running> running = it->second;
  running_.erase(it);
  loop_->CancelTimerOnLoop(running->timer);
  loop_->Post([running] {});
  const Request& request = running->request;
  CountEnded(request, status);
  request.done(status.ok() ? status : status.WithContext(Title(request)), head);
}

void P2p::FailOnLoop(uint64_t handle, const Status& status) {
  KF_DCHECK(loop_->InLoop());
  const auto it = running_.find(handle);
  if (it == running_.end()) return;
  const std::shared_ptr<Running> running = it->second;
  if (running->pull) return running->pull->GiveUpOnLoop(status);
  keeper_.DropOnLoop(handle);
  EndedOnLoop(handle, status, {});
}

uint64_t P2p::Start(Put put) {
  const uint64_t handle = next_handle_++;
  auto running = std::make_shared<RunningPut>();
  Status status = ValidateName(put.queue);
  if (status.ok() && put.capacity < 1) {
    status = InvalidArgumentError("a capacity of " + std::to_string(put.capacity));
  }
  bool waits = false;
  if (status.ok()) {
    StatusOr<std::shared_ptr<Blob>> blob = store_.Copy(put.form, put.bytes);
    status = blob.status();
    if (blob.ok()) {
      StatusOr<uint64_t> number = store_.Push(put.queue, put.epoch, std::move(*blob));
      status = number.status();
      running->number = number.ok() ? *number : 0;
    }
    if (status.ok()) {
      waits = store_.PositionOf(put.queue, running->number) >= put.capacity;
      SavedLater(put.queue);
    }
  }
  if (waits && !loop_) {
    store_.Remove(put.queue, running->number);
    status = ResourceExhaustedError("it is full, and there is no other peer to take something out");
  }
  put.bytes.clear();
  running->put = std::move(put);
  const auto finish = [this, running](const Status& outcome) {
    Count(running->put.queue, outcome.ok());
    running->put.done(outcome.WithContext(TitleOf(running->put.queue)));
  };
  if (!loop_) {
    finish(status);
  } else if (!waits) {
    if (!loop_->Post([finish, status] { finish(status); })) finish(status);
  } else if (!loop_->Post([this, handle, running] { StartPutOnLoop(handle, running); })) {
    finish(CancelledError("this peer has shut down"));
  }
  return handle;
}

void P2p::StartPutOnLoop(uint64_t handle, std::shared_ptr<RunningPut> put) {
  KF_DCHECK(loop_->InLoop());
  const Seconds timeout = TimeoutOf(put->put.timeout);
  const std::string queue = put->put.queue;
  puts_[handle] = put;
  const auto warn = [this, queue] {
    KF_LOG(WARNING) << TitleOf(queue) << " has taken " << InSeconds(options_.stall_warning)
                    << ": it is full, and nothing is taken out of it";
  };
  const auto expire = [this, handle, timeout] {
    EndPutOnLoop(handle,
                 DeadlineExceededError("it is full, and nothing was taken out of it within " + InSeconds(timeout)));
  };
  WatchOnLoop(&put->timer, timeout, warn, expire);
  if (!closed_.ok()) return EndPutOnLoop(handle, closed_);
  if (!interrupted_.ok()) return EndPutOnLoop(handle, interrupted_);
  RetryPutsOnLoop(queue);
}

void P2p::RetryPutsOnLoop(const std::string& queue) {
  KF_DCHECK(loop_->InLoop());
  for (auto it = puts_.begin(); it != puts_.end();) {
    const auto& [handle, put] = *it++;
    const bool has_room = put->put.queue == queue && store_.PositionOf(queue, put->number) < put->put.capacity;
    if (has_room) EndPutOnLoop(handle, OkStatus());
  }
}

// A blob that has been taken meanwhile has not failed.
void P2p::EndPutOnLoop(uint64_t handle, const Status& status) {
  KF_DCHECK(loop_->InLoop());
  const auto it = puts_.find(handle);
  if (it == puts_.end()) return;
  const std::shared_ptr<RunningPut> put = it->second;
  puts_.erase(it);
  loop_->CancelTimerOnLoop(put->timer);
  const bool failed = !status.ok() && store_.Remove(put->put.queue, put->number);
  const Status outcome = failed ? status.WithContext(TitleOf(put->put.queue)) : OkStatus();
  Count(put->put.queue, outcome.ok());
  put->put.done(outcome);
}

void P2p::Cancel(uint64_t handle, const Status& cause) {
  if (!loop_) return;
  loop_->Post([this, handle, cause] {
    const std::string by = "it was cancelled";
    const Status why = cause.ok() ? CancelledError(by) : Status(cause.code(), by + ", because " + cause.message());
    FailOnLoop(handle, why);
    EndPutOnLoop(handle, why);
  });
}

// It is counted and not timed: the wait for a missing blob says nothing of the network.
void P2p::Count(const std::string& name, bool succeeded) {
  counters_->Ended(counters_->Of(name), succeeded, /*began=*/{}, /*bytes=*/0, /*strategy=*/0);
}

// An empty outbox is no failure.
void P2p::CountEnded(const Request& request, const Status& status) {
  const bool is_empty = request.query.takes && !request.waits && status.code() == Code::kNotFound;
  Count(request.query.name, status.ok() || is_empty);
}

void P2p::WatchOnLoop(EventLoop::TimerId* timer, Seconds timeout, std::function<void()> warn,
                      std::function<void()> expire) {
  KF_DCHECK(loop_->InLoop());
  if (timeout <= options_.stall_warning) {
    *timer = loop_->RunAtOnLoop(After(timeout), std::move(expire));
    return;
  }
  const auto deadline = After(timeout);
  *timer = loop_->RunAtOnLoop(After(options_.stall_warning), [=] {
    warn();
    *timer = loop_->RunAtOnLoop(deadline, expire);
  });
}

// A queue is where it is filled.
std::string P2p::TitleOf(const std::string& queue) const {
  return "put into queue '" + queue + "' at " + self_.ToString();
}

Seconds P2p::TimeoutOf(double timeout) const {
  return timeout > 0 ? Seconds(std::min(timeout, kMaxTimeout)) : options_.timeout;
}

void P2p::OpenOnLoop() {
  KF_DCHECK(loop_->InLoop());
  router_->SetPullHandlerOnLoop(this);
}

void P2p::InterruptOnLoop(const Status& why) {
  KF_DCHECK(loop_->InLoop());
  if (interrupted_.ok()) interrupted_ = why;
  FailAllOnLoop(why, /*only_queues=*/false);
}

void P2p::BeginEpoch(uint64_t epoch) {
  if (loop_) FailAllOnLoop(CancelledError("the epoch has ended"), /*only_queues=*/true);
  interrupted_ = OkStatus();
  store_.BeginEpoch(epoch);
  keeper_.OnEpoch();
}

void P2p::FailAllOnLoop(const Status& status, bool only_queues) {
  KF_DCHECK(loop_->InLoop());
  std::vector<uint64_t> pending;
  for (const auto& [handle, running] : running_) {
    if (running->request.query.takes || !only_queues) pending.push_back(handle);
  }
  for (const uint64_t handle : pending) FailOnLoop(handle, status);
  while (!puts_.empty()) EndPutOnLoop(puts_.begin()->first, status);
}

void P2p::CloseOnLoop(const Status& why) {
  KF_DCHECK(loop_->InLoop());
  closed_ = why;
  FailAllOnLoop(why, /*only_queues=*/false);
  keeper_.CloseOnLoop();
  if (router_) router_->SetPullHandlerOnLoop(nullptr);
}

void P2p::OnPullOnLoop(const PeerId& asker, const FrameHeader& pull) {
  KF_DCHECK(loop_->InLoop());
  keeper_.OnPullOnLoop(asker, pull);
}

void P2p::OnPullDroppedOnLoop(const PeerId& asker, const OperationId& id) {
  KF_DCHECK(loop_->InLoop());
  keeper_.OnDroppedOnLoop(asker, id);
}

void P2p::OnPullRefusedOnLoop(const PeerId& keeper, const OperationId& id, const Status& why) {
  KF_DCHECK(loop_->InLoop());
  for (const auto& [handle, running] : running_) {
    const Request& request = running->request;
    if (!running->pull || !(running->pull->id() == id) || request.peers[request.target] != keeper) continue;
    const std::shared_ptr<Running> refused = running;
    return refused->pull->RefusedOnLoop(why);
  }
}

void P2p::OnAskerLostOnLoop(const PeerId& asker) {
  KF_DCHECK(loop_->InLoop());
  keeper_.OnAskerLostOnLoop(asker);
}

}  // namespace kungfu
