#include "ops/router/out_link.h"

#include <utility>

#include "ops/router/credit.h"

namespace kungfu {

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
  if (!closed_.ok()) {
    FinishLater(std::move(done), closed_);
    return;
  }
  Message message;
  message.header.tag = std::move(tag);
  message.header.signature = signature;
  message.size = TotalSize(payload);
  message.payload = std::move(payload);
  message.done = std::move(done);
  waiting_.push_back(std::move(message));
  ConnectIfNeeded();
  Drain();
}

void OutLink::SendNoticeOnLoop(FrameHeader header, const std::string& text) {
  if (!closed_.ok()) return;
  auto kept = std::make_shared<std::string>(text.substr(0, kMaxTextSize));
  Message message;
  message.header = std::move(header);
  if (!kept->empty()) message.payload = {{kept->data(), kept->size()}};
  message.done = [kept](const Status&) {};
  if (connection_) {
    connection_->SendOnLoop(std::move(message.header), std::move(message.payload), std::move(message.done));
  } else {
    waiting_.push_front(std::move(message));
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
    Fail(connection.status());
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
  const FrameType type = message->header.type;
  if (type == FrameType::kFail || type == FrameType::kAsk) {
    connection_->SendOnLoop(std::move(message->header), std::move(message->payload), std::move(message->done));
    return true;
  }
  const size_t name_size = message->header.tag.name.size();
  const uint64_t data_cost = ParkCost(name_size, message->size);
  if (message->size <= kMaxEagerSize && outstanding_ + data_cost <= kParkEagerLimit) {
    outstanding_ += data_cost;
    message->header.type = FrameType::kData;
    connection_->SendOnLoop(std::move(message->header), std::move(message->payload), std::move(message->done));
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

void OutLink::Granted(const Tag& tag) {
  for (auto it = announced_.begin(); it != announced_.end(); ++it) {
    if (it->header.tag.part != tag.part || !(IdOf(it->header.tag) == IdOf(tag))) continue;
    Message message = std::move(*it);
    announced_.erase(it);
    message.header.type = FrameType::kBulk;
    connection_->SendOnLoop(std::move(message.header), std::move(message.payload), std::move(message.done));
    return;
  }
  // Withdrawn meanwhile: the receiver learns that its operation has failed.
}

void OutLink::WithdrawOnLoop(const OperationId& id) {
  const auto of_operation = [&](const Message& message) {
    return message.header.type != FrameType::kFail && IdOf(message.header.tag) == id;
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
  if (!closed_.ok() || !close_reason_.ok()) return;
  close_reason_ = why;
  if (connection_) {
    connection_->CloseOnLoop(deadline);
  } else {
    Fail(why);
  }
}

Status OutLink::OnFrameOnLoop(Connection*, const FrameHeader& header, Sink** sink) {
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
      text_.clear();
      if (header.payload_size > 0) *sink = this;
      return OkStatus();
    default:
      return InvalidArgumentError("a frame of type " + std::to_string(static_cast<int>(header.type)) +
                                  " in the wrong direction");
  }
}

void OutLink::OnFrameEndOnLoop(Connection*, const FrameHeader& header) {
  if (header.type == FrameType::kAnswer) owner_->OnAnswerOnLoop(peer_, header.tag, Status(header.code, text_));
}

void OutLink::OnClosedOnLoop(Connection*, const Status& why) { Fail(close_reason_.ok() ? why : close_reason_); }

void OutLink::Fail(const Status& why) {
  closed_ = why;
  for (Message& message : waiting_) FinishLater(std::move(message.done), why);
  for (Message& message : announced_) FinishLater(std::move(message.done), why);
  waiting_.clear();
  announced_.clear();
  owner_->OnOutLinkClosedOnLoop(peer_, why);
}

void OutLink::FinishLater(StatusCallback done, const Status& status) {
  if (done) loop_->Post([done = std::move(done), status] { done(status); });
}

}  // namespace kungfu
