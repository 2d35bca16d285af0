// A connection that a peer has opened to us: it brings messages, and takes grants, credit and answers back.

#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ops/base/deadline.h"
#include "ops/router/mailbox.h"
#include "ops/transport/event_loop.h"
#include "ops/transport/transport.h"

namespace kungfu {

// The events that an InLink passes on to the router.
class InLinkOwner {
 public:
  virtual ~InLinkOwner() = default;
  virtual void OnFailFrameOnLoop(const PeerId& from, const Tag& tag, const Status& status) = 0;
  // Returns the answer.
  virtual Status OnAskOnLoop(const PeerId& from, const Tag& tag, const Signature& theirs) = 0;
  virtual void OnPullOnLoop(const PeerId& from, const FrameHeader& pull) = 0;
  virtual void OnInLinkClosedOnLoop(class InLink* link, const Status& why) = 0;
};

class InLink : public ConnectionHandler, public Incoming, private Sink {
 public:
  InLink(EventLoop* loop, std::unique_ptr<Connection> connection, Mailbox* mailbox, InLinkOwner* owner);

  Connection* connection() const { return connection_.get(); }
  Clock::time_point last_heard() const { return last_heard_; }
  // The epoch with which the peer made its connections anew before this one; 0: it never did. Known when something has
  // come.
  const std::optional<uint32_t>& generation() const { return generation_; }

  // kAnswer; and kFail, where there is no connection of ours to this peer, or it answers a kPull. A peer that does not
  // read them is told no more.
  void SendNoticeOnLoop(FrameHeader header, const std::string& text);

  // Incoming
  const PeerId& peer() const override { return connection_->remote(); }
  void GrantOnLoop(const Tag& tag) override;
  void ReleaseOnLoop(uint64_t cost) override;
  void DetachOnLoop() override;

  // ConnectionHandler
  Status OnFrameOnLoop(Connection* connection, const FrameHeader& header, Sink** sink) override;
  void OnFrameEndOnLoop(Connection* connection, const FrameHeader& header) override;
  void OnClosedOnLoop(Connection* connection, const Status& why) override;

 private:
  // Sink: passes a payload on to the slot's sink, or nowhere once that was detached.
  MutableBytes Reserve(size_t max) override;
  void Commit(size_t size) override;
  void Consume(ConstBytes view) override;

  void Answer(const FrameHeader& question);

  Status Charge(uint64_t cost);

  EventLoop* const loop_;
  const std::unique_ptr<Connection> connection_;
  Mailbox* const mailbox_;
  InLinkOwner* const owner_;
  Clock::time_point last_heard_;
  std::optional<uint32_t> generation_;

  Mailbox::Slot* slot_ = nullptr;  // whose payload is arriving
  Sink* target_ = nullptr;         // where it goes; null: nowhere
  std::string text_;               // payload of kFail
  bool reading_text_ = false;
  std::unique_ptr<char[]> discard_;

  // Answers and failures that the peer has not read yet.
  const std::shared_ptr<int> unread_ = std::make_shared<int>(0);
  uint64_t parked_ = 0;      // cost of messages that have come and were not released
  uint64_t unreturned_ = 0;  // released, and not told to the sender yet
};

}  // namespace kungfu
