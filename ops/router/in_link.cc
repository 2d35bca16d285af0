#include "ops/router/in_link.h"

#include <algorithm>
#include <utility>

#include "ops/base/logging.h"
#include "ops/router/credit.h"

namespace kungfu {
namespace {

constexpr size_t kDiscardSize = 64 << 10;
// A peer that asks and does not read the answers gets no more of them.
constexpr int kMaxUnread = 1024;

}  // namespace

InLink::InLink(EventLoop* loop, std::unique_ptr<Connection> connection, Mailbox* mailbox, InLinkOwner* owner)
    : loop_(loop), connection_(std::move(connection)), mailbox_(mailbox), owner_(owner), last_heard_(Clock::now()) {}

void InLink::SendNoticeOnLoop(FrameHeader header, const std::string& text) {
  KF_DCHECK(loop_->InLoop());
  if (*unread_ >= kMaxUnread) return;
  auto kept = std::make_shared<std::string>(text.substr(0, kMaxTextSize));
  header.payload_size = kept->size();
  StatusCallback* const place = connection_->SendOnLoop(header, {{kept->data(), kept->size()}});
  if (place == nullptr) return;
  ++*unread_;
  *place = [kept, unread = unread_](const Status&) { --*unread; };
}

void InLink::GrantOnLoop(const Tag& tag) {
  KF_DCHECK(loop_->InLoop());
  FrameHeader header;
  header.type = FrameType::kGrant;
  header.tag = tag;
  connection_->SendOnLoop(header, {});
}

void InLink::ReleaseOnLoop(uint64_t cost) {
  KF_DCHECK(loop_->InLoop());
  parked_ -= cost;
  unreturned_ += cost;
  if (unreturned_ < kCreditPortion) return;
  FrameHeader header;
  header.type = FrameType::kCredit;
  header.bulk_size = std::exchange(unreturned_, 0);
  connection_->SendOnLoop(header, {});
}

void InLink::DetachOnLoop() {
  KF_DCHECK(loop_->InLoop());
  slot_ = nullptr;
  target_ = nullptr;
}

Status InLink::Charge(uint64_t cost) {
  parked_ += cost;
  if (parked_ > kParkLimit) {
    return InvalidArgumentError("peer " + peer().ToString() + " sent more than it had credit for");
  }
  return OkStatus();
}

Status InLink::OnFrameOnLoop(Connection*, const FrameHeader& header, Sink** sink) {
  KF_DCHECK(loop_->InLoop());
  slot_ = nullptr;
  target_ = nullptr;
  reading_text_ = false;
  last_heard_ = loop_->NowOnLoop();
  if (!generation_) {
    const bool is_anew = header.type == FrameType::kAnew;
    generation_ = is_anew ? header.tag.epoch : 0;
    if (is_anew) return OkStatus();
  }
  switch (header.type) {
    case FrameType::kData: {
      const uint64_t cost = ParkCost(header.tag.name.size(), header.payload_size);
      KF_RETURN_IF_ERROR(Charge(cost));
      slot_ = mailbox_->DataArrives(this, header, cost);
      break;
    }
    case FrameType::kBulk: {
      StatusOr<Mailbox::Slot*> slot = mailbox_->BulkArrives(this, header);
      if (!slot.ok()) return slot.status();
      slot_ = *slot;
      break;
    }
    case FrameType::kAnnounce: {
      const uint64_t cost = ParkCost(header.tag.name.size(), 0);
      KF_RETURN_IF_ERROR(Charge(cost));
      mailbox_->Announced(this, header, cost);
      return OkStatus();
    }
    case FrameType::kFail:
      reading_text_ = true;
      text_.clear();
      break;
    case FrameType::kAsk:
      break;
    case FrameType::kPull:
      owner_->OnPullOnLoop(peer(), header);
      return OkStatus();
    default:
      return InvalidArgumentError("a frame of type " + std::to_string(static_cast<int>(header.type)) +
                                  " in the wrong direction");
  }
  if (slot_) target_ = mailbox_->SinkOf(slot_);
  if (header.payload_size > 0) *sink = this;
  return OkStatus();
}

void InLink::OnFrameEndOnLoop(Connection*, const FrameHeader& header) {
  KF_DCHECK(loop_->InLoop());
  if (header.type == FrameType::kFail) {
    owner_->OnFailFrameOnLoop(peer(), header.tag, Status(header.code, text_));
  } else if (header.type == FrameType::kAsk) {
    Answer(header);
  } else if (slot_) {
    target_ = nullptr;
    mailbox_->Arrived(std::exchange(slot_, nullptr));
  }
}

void InLink::Answer(const FrameHeader& question) {
  const Status answer = owner_->OnAskOnLoop(peer(), question.tag, question.signature);
  FrameHeader reply;
  reply.type = FrameType::kAnswer;
  reply.tag = question.tag;
  reply.code = answer.code();
  SendNoticeOnLoop(std::move(reply), answer.message());
}

void InLink::OnClosedOnLoop(Connection*, const Status& why) {
  KF_DCHECK(loop_->InLoop());
  DetachOnLoop();
  mailbox_->SourceLost(this);
  owner_->OnInLinkClosedOnLoop(this, why);
}

MutableBytes InLink::Reserve(size_t max) {
  if (target_) return target_->Reserve(max);
  if (reading_text_) return {};
  if (!discard_) discard_ = std::make_unique<char[]>(kDiscardSize);
  return {discard_.get(), std::min(max, kDiscardSize)};
}

void InLink::Commit(size_t size) {
  if (target_) target_->Commit(size);
}

void InLink::Consume(ConstBytes view) {
  if (target_) {
    target_->Consume(view);
  } else if (reading_text_) {
    text_.append(view.data, view.size);
  }
}

}  // namespace kungfu
