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

OutLink::OutLink(EventLoop* loop, TransportSet* transports, const PeerId& peer, Seconds connect_timeout,
                 OutLinkOwner* owner)
    : loop_(loop),
      transports_(transports),
      peer_(peer),
      connect_timeout_(connect_timeout),
      owner_(owner),
      self_(std::make_shared<OutLink*>(this)) {}

OutLink::~OutLink() { *self_ = nullptr; }

void OutLink::SendOnLoop(Tag tag, const Signature& signature, Payload payload, StatusCallback done) {
  KF_DCHECK(loop_->InLoop());
  if (!failed_.ok()) return FinishLater(std::move(done), failed_);
  Message message;
  message.header.tag = std::move(tag);
  message.header.signature = signature;
  message.size = TotalSize(payload);
  message.payload = std::move(payload);
  message.done = std::move(done);
  if (connection_ && waiting_.empty() && closed_.ok() && TrySend(&message)) return;
  waiting_.push_back(std::move(message));
  if (!closed_.ok()) return;
  ConnectIfNeeded();
  Drain();
}

void OutLink::SendNoticeOnLoop(FrameHeader header, std::string text) {
  KF_DCHECK(loop_->InLoop());
  if (!closed_.ok()) return;
  auto kept = std::make_shared<std::string>(std::move(text));
  Message message;
  message.header = std::move(header);
  if (!kept->empty()) message.payload = {{kept->data(), kept->size()}};
  message.done = [kept](const Status&) {};
  if (connection_) {
    connection_->SendOnLoop(std::move(message.header), std::move(message.payload), std::move(message.done));
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
  // The handler is set when this call returns.
  loop_->Post([self = self_] {
    if (*self) (*self)->Drain();
  });
}

void OutLink::Drain() {
  if (!connection_) return;
  while (!waiting_.empty() && TrySend(&waiting_.front())) waiting_.pop_front();
}

// Sends or announces the message, if the credit suffices.
bool OutLink::TrySend(Message* message) {
  if (IsNotice(message->header.type)) {
    connection_->SendOnLoop(std::move(message->header), std::move(message->payload), std::move(message->done));
    return true;
  }
  const size_t name_size = message->header.tag.name.size();
  const uint64_t data_cost = ParkCost(name_size, message->size);
  if (message->size <= kMaxEagerSize && outstanding_ + data_cost <= kParkEagerLimit) {
    outstanding_ += data_cost;
    Send(FrameType::kData, message);
    return true;
  }
  const uint64_t announce_cost = ParkCost(name_size, 0);
  if (outstanding_ + announce_cost > kParkLimit) return false;
  outstanding_ += announce_cost;
  FrameHeader announcement = message->header;
  announcement.type = FrameType::kAnnounce;
  announcement.bulk_size = message->size;
  announced_.push_back(std::move(*message));
  connection_->SendOnLoop(std::move(announcement), {}, nullptr);
  return true;
}

void OutLink::Send(FrameType type, Message* message) {
  message->header.type = type;
  ++messages_sent_;
  payload_sent_ += message->size;
  connection_->SendOnLoop(std::move(message->header), std::move(message->payload),
                          [self = self_, done = std::move(message->done)](const Status& status) {
                            if (status.ok() || !*self) return done(status);
                            (*self)->unsent_.push_back(done);
                          });
}

void OutLink::Granted(const Tag& tag) {
  for (auto it = announced_.begin(); it != announced_.end(); ++it) {
    if (it->header.tag.part != tag.part || !(IdOf(it->header.tag) == IdOf(tag))) continue;
    Message message = std::move(*it);
    announced_.erase(it);
    Send(FrameType::kBulk, &message);
    return;
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

Status OutLink::OnFrameOnLoop(Connection*, const FrameHeader& header, Sink** sink) {
  KF_DCHECK(loop_->InLoop());
  owner_->OnHeardOnLoop(peer_);
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
  owner_->OnOutLinkClosedOnLoop(peer_, why);
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
