// Our connection to one peer: opened when the first message is sent to it; takes messages there, and brings grants,
// credit and answers back.

#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "ops/base/deadline.h"
#include "ops/router/mailbox.h"
#include "ops/transport/choice/transport_set.h"
#include "ops/transport/event_loop.h"
#include "ops/transport/transport.h"

namespace kungfu {

class OutLinkOwner {
 public:
  virtual ~OutLinkOwner() = default;
  virtual void OnFailFrameOnLoop(const PeerId& from, const Tag& tag, const Status& status) = 0;
  virtual void OnAnswerOnLoop(const PeerId& from, const Tag& tag, const Status& answer) = 0;
  // The last word of a link: nothing is sent over it any more.
  virtual void OnOutLinkClosedOnLoop(class OutLink* link, const Status& why) = 0;
};

class OutLink : public ConnectionHandler, private Sink {
 public:
  // `generation`: that of the peers' connections with each other (InLink::generation).
  OutLink(EventLoop* loop, TransportSet* transports, const PeerId& peer, uint32_t generation, Seconds connect_timeout,
          OutLinkOwner* owner);
  ~OutLink() override;

  // Sends a message of an operation. As Connection::SendOnLoop: null if it is sent; otherwise the place for the
  // callback that is called once its bytes are not needed any more. REQUIRES: `header` is that of a kData, of whatever
  // size.
  StatusCallback* SendOnLoop(const FrameHeader& header, Payload payload);
  // kFail, kAsk and kPull. `text`: no longer than that of such a frame may be.
  void SendNoticeOnLoop(FrameHeader header, std::string text);
  // Unsent frames fail with `why`. Until then they are kept, also when the connection is over: earlier messages of the
  // peer, over its own connection, may say more. REQUIRES: closed() is not OK.
  void FailSendsOnLoop(const Status& why);
  // Data of `id` that was not begun is not sent: their `done` is called with kCancelled, later.
  void WithdrawOnLoop(const OperationId& id);
  // Says goodbye and ends, at the latest at `deadline`. OnOutLinkClosed follows with `why`.
  void CloseOnLoop(Deadline deadline, const Status& why);
  // Ends without a goodbye. OnOutLinkClosed follows with `why`, unless it has been called.
  void BreakOnLoop(const Status& why);

  // Whether there is a connection, or has been one.
  bool connected() const { return connection_ != nullptr; }
  const PeerId& peer() const { return peer_; }
  const Status& closed() const { return closed_; }
  const Connection* connection() const { return connection_.get(); }
  Clock::time_point last_heard() const { return last_heard_; }
  // The payload bytes of operations, without announcements and headers.
  uint64_t messages_sent() const { return messages_sent_; }
  uint64_t payload_sent() const { return payload_sent_; }

  // ConnectionHandler
  Status OnFrameOnLoop(Connection* connection, const FrameHeader& header, Sink** sink) override;
  void OnFrameEndOnLoop(Connection* connection, const FrameHeader& header) override;
  void OnClosedOnLoop(Connection* connection, const Status& why) override;

 private:
  struct Message {
    FrameHeader header;
    Payload payload;
    StatusCallback done;
  };

  // Sink: the text of a kAnswer or kFail.
  MutableBytes Reserve(size_t) override { return {}; }
  void Commit(size_t) override {}
  void Consume(ConstBytes view) override { text_.append(view.data, view.size); }

  void ConnectIfNeeded();
  void OnConnected(StatusOr<std::unique_ptr<Connection>> connection);
  void Drain();
  // Both return whether the credit suffices, and take it: to send a message at once, or to announce it.
  bool MaySend(const FrameHeader& header);
  bool TryAnnounce(const FrameHeader& header);
  StatusCallback* Send(const FrameHeader& header, Payload payload);
  // One of those that have waited.
  void SendAndTell(Message message);
  void Granted(const Tag& tag);
  void End(const Status& why);
  void FinishLater(StatusCallback done, const Status& status);

  EventLoop* const loop_;
  TransportSet* const transports_;
  const PeerId peer_;
  const uint32_t generation_;
  const Seconds connect_timeout_;
  OutLinkOwner* const owner_;
  // Outlives the link in callbacks, and says whether it is still there.
  const std::shared_ptr<OutLink*> self_;

  bool connecting_ = false;
  std::unique_ptr<Connection> connection_;
  Clock::time_point last_heard_{};
  Status close_reason_;  // not OK: we are closing
  Status closed_;        // not OK: the connection is over
  Status failed_;        // not OK: all sends fail with it

  std::list<Message> waiting_;          // for the connection, or for credit
  std::list<Message> announced_;        // for a grant
  std::vector<StatusCallback> unsent_;  // of messages that the connection did not take
  uint64_t outstanding_ = 0;            // cost of messages that the receiver has not released
  uint64_t messages_sent_ = 0, payload_sent_ = 0;
  std::string text_;
};

}  // namespace kungfu
