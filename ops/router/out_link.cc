#include "ops/router/out_link.h"

#include <algorithm>
#include <utility>

#include "ops/base/logging.h"
#include "ops/router/credit.h"

namespace kungfu {
namespace {

// Frames that wait for no credit.
bool IsNotice(FrameType type) {
  return type == FrameType::kFail || type == FrameType::kAsk || type == FrameType::kPull;
}

}  // namespace

OutLink::OutLink(EventLoop* loop, TransportSet* transports, const PeerId& peer, uint32_t generation,
                 Seconds connect_timeout, OutLinkOwner* owner)
    : loop_(loop),
      transports_(transports),
      peer_(peer),
      generation_(generation),
      connect_timeout_(connect_timeout),
      owner_(owner),
      self_(std::make_shared<OutLink*>(this)) {}

OutLink::~OutLink() { *self_ = nullptr; }

StatusCallback* OutLink::SendOnLoop(const FrameHeader& header, Payload payload) {
  KF_DCHECK(loop_->InLoop());
  if (!failed_.ok()) {
    const auto done = std::make_shared<StatusCallback>();
    loop_->Post([done, why = failed_] { (*done)(why); });
    return done.get();
  }
  const bool is_next = connection_ && waiting_.empty() && closed_.ok();
  if (is_next && MaySend(header)) return Send(header, std::move(payload));
  std::list<Message>& kept = is_next && TryAnnounce(header) ? announced_ : waiting_;
  kept.push_back({header, std::move(payload), nullptr});
  if (closed_.ok()) ConnectIfNeeded();
  return &kept.back().done;
}

void OutLink::SendNoticeOnLoop(FrameHeader header, std::string text) {
  KF_DCHECK(loop_->InLoop());
  if (!closed_.ok()) return;
  auto kept = std::make_shared<std::string>(std::move(text));
  Message message;
  message.header = std::move(header);
  message.header.payload_size = kept->size();
  if (!kept->empty()) message.payload = {{kept->data(), kept->size()}};
  message.done = [kept](const Status&) {};
  if (connection_) {
    StatusCallback* const place = connection_->SendOnLoop(message.header, std::move(message.payload));
    if (place != nullptr) *place = std::move(message.done);
  } else {
    const auto data = std::find_if_not(waiting_.begin(), waiting_.end(),
                                       [](const Message& other) { return IsNotice(other.header.type); });
    waiting_.insert(data, std::move(message));
    ConnectIfNeeded();
  }
}

void OutLink::ConnectIfNeeded() {
  if (connection_ || connecting_) return;
  connecting_ = true;
  transports_->ConnectOnLoop(peer_, After(connect_timeout_),
                             [self = self_](StatusOr<std::unique_ptr<Connection>> connection) -> ConnectionHandler* {
                               if (!*self) return nullptr;
                               (*self)->OnConnected(std::move(connection));
                               return *self;
                             });
}

void OutLink::OnConnected(StatusOr<std::unique_ptr<Connection>> connection) {
  connecting_ = false;
  if (!closed_.ok()) return;
  if (!connection.ok()) {
    End(connection.status());
    return;
  }
  connection_ = std::move(*connection);
  if (generation_ != 0) {
    FrameHeader anew;
    anew.type = FrameType::kAnew;
    anew.tag.epoch = generation_;
    connection_->SendOnLoop(anew, {});
  }
  // The handler is set when this call returns.
  loop_->Post([self = self_] {
    if (*self) (*self)->Drain();
  });
}

void OutLink::Drain() {
  if (!connection_) return;
  while (!waiting_.empty()) {
    Message& next = waiting_.front();
    if (IsNotice(next.header.type) || MaySend(next.header)) {
      SendAndTell(std::move(next));
      waiting_.pop_front();
    } else if (TryAnnounce(next.header)) {
      announced_.splice(announced_.end(), waiting_, waiting_.begin());
    } else {
      return;
    }
  }
}

bool OutLink::MaySend(const FrameHeader& header) {
  const uint64_t cost = ParkCost(header.tag.name.size(), header.payload_size);
  if (header.payload_size > kMaxEagerSize || outstanding_ + cost > kParkEagerLimit) return false;
  outstanding_ += cost;
  return true;
}

bool OutLink::TryAnnounce(const FrameHeader& header) {
  const uint64_t cost = ParkCost(header.tag.name.size(), 0);
  if (outstanding_ + cost > kParkLimit) return false;
  outstanding_ += cost;
  FrameHeader announcement = header;
  announcement.type = FrameType::kAnnounce;
  announcement.bulk_size = header.payload_size;
  announcement.payload_size = 0;
  connection_->SendOnLoop(announcement, {});
  return true;
}

StatusCallback* OutLink::Send(const FrameHeader& header, Payload payload) {
  if (!IsNotice(header.type)) {
    ++messages_sent_;
    payload_sent_ += header.payload_size;
  }
  StatusCallback* const place = connection_->SendOnLoop(header, std::move(payload));
  if (place == nullptr) return nullptr;
  const auto done = std::make_shared<StatusCallback>();
  *place = [self = self_, done](const Status& status) {
    if (status.ok() || !*self) return (*done)(status);
    (*self)->unsent_.push_back(std::move(*done));
  };
  return done.get();
}

void OutLink::SendAndTell(Message message) {
  StatusCallback* const place = Send(message.header, std::move(message.payload));
  if (place == nullptr) return FinishLater(std::move(message.done), OkStatus());
  *place = std::move(message.done);
}

void OutLink::Granted(const Tag& tag) {
  for (auto it = announced_.begin(); it != announced_.end(); ++it) {
    if (it->header.tag.part != tag.part || !(IdOf(it->header.tag) == IdOf(tag))) continue;
    Message message = std::move(*it);
    announced_.erase(it);
    message.header.type = FrameType::kBulk;
    return SendAndTell(std::move(message));
  }
  // Withdrawn meanwhile: the receiver learns that its operation has failed.
}

void OutLink::WithdrawOnLoop(const OperationId& id) {
  KF_DCHECK(loop_->InLoop());
  const auto of_operation = [&](const Message& message) {
    return !IsNotice(message.header.type) && IdOf(message.header.tag) == id;
  };
  const auto withdraw = [&](auto* messages) {
    for (auto it = messages->begin(); it != messages->end();) {
      if (!of_operation(*it)) {
        ++it;
        continue;
      }
      FinishLater(std::move(it->done), CancelledError("withdrawn"));
      it = messages->erase(it);
    }
  };
  withdraw(&waiting_);
  withdraw(&announced_);
}

void OutLink::CloseOnLoop(Deadline deadline, const Status& why) {
  KF_DCHECK(loop_->InLoop());
  if (!closed_.ok() || !close_reason_.ok()) return;
  close_reason_ = why;
  if (connection_) {
    connection_->CloseOnLoop(deadline);
  } else {
    End(why);
  }
}

void OutLink::BreakOnLoop(const Status& why) {
  KF_DCHECK(loop_->InLoop());
  if (!closed_.ok()) return;
  close_reason_ = why;
  if (connection_) {
    connection_->BreakOnLoop(why);
  } else {
    End(why);
  }
}

Status OutLink::OnFrameOnLoop(Connection*, const FrameHeader& header, Sink** sink) {
  KF_DCHECK(loop_->InLoop());
  last_heard_ = loop_->NowOnLoop();
  switch (header.type) {
    case FrameType::kGrant:
      Granted(header.tag);
      return OkStatus();
    case FrameType::kCredit:
      if (header.bulk_size > outstanding_) {
        return InvalidArgumentError("peer " + peer_.ToString() + " returned more credit than it had");
      }
      outstanding_ -= header.bulk_size;
      Drain();
      return OkStatus();
    case FrameType::kAnswer:
    case FrameType::kFail:
      text_.clear();
      if (header.payload_size > 0) *sink = this;
      return OkStatus();
    default:
      return InvalidArgumentError("a frame of type " + std::to_string(static_cast<int>(header.type)) +
                                  " in the wrong direction");
  }
}

void OutLink::OnFrameEndOnLoop(Connection*, const FrameHeader& header) {
  KF_DCHECK(loop_->InLoop());
  const Status said(header.code, text_);
  if (header.type == FrameType::kAnswer) owner_->OnAnswerOnLoop(peer_, header.tag, said);
  if (header.type == FrameType::kFail) owner_->OnFailFrameOnLoop(peer_, header.tag, said);
}

void OutLink::OnClosedOnLoop(Connection*, const Status& why) {
  KF_DCHECK(loop_->InLoop());
  End(close_reason_.ok() ? why : close_reason_);
}

void OutLink::End(const Status& why) {
  closed_ = why;
  owner_->OnOutLinkClosedOnLoop(this, why);
}

void OutLink::FailSendsOnLoop(const Status& why) {
  KF_DCHECK(loop_->InLoop());
  failed_ = why;
  // Callbacks may send again, and are told at once that it fails.
  const auto fail = [&](auto messages) {
    for (Message& message : messages) message.done(why);
  };
  fail(std::exchange(waiting_, {}));
  fail(std::exchange(announced_, {}));
  for (StatusCallback& done : std::exchange(unsent_, {})) FinishLater(std::move(done), why);
}

void OutLink::FinishLater(StatusCallback done, const Status& status) {
  if (done) loop_->Post([done = std::move(done), status] { done(status); });
}

}  // namespace kungfu
