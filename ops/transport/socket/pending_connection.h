// A connection that is not authenticated yet: plays one side of a handshake over a socket, before a deadline.

#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ops/base/deadline.h"
#include "ops/base/status.h"
#include "ops/base/unique_fd.h"
#include "ops/plan/peer_id.h"
#include "ops/transport/event_loop.h"
#include "ops/transport/handshake.h"

namespace kungfu {

inline constexpr Seconds kHandshakeTimeout{5};

// Event loop only. Destroying it closes the socket and makes no calls.
class PendingConnection : private FdHandler {
 public:
  // The authenticated socket and the peer at its other end, or why there is none. kPermissionDenied: the handshake was
  // refused, by either side. kInvalidArgument: the peer that is named is one of ours, and there can be none with it.
  // Called once, from the loop; may destroy this object.
  using Callback = std::function<void(const Status&, UniqueFd, const PeerId&)>;

  // `fd` may still be on its way to be connected.
  PendingConnection(EventLoop* loop, UniqueFd fd, std::unique_ptr<Handshake> handshake, Deadline deadline,
                    Callback done);
  ~PendingConnection() override;
  PendingConnection(const PendingConnection&) = delete;
  PendingConnection& operator=(const PendingConnection&) = delete;

  // Whether the other side has said something that was worth an answer.
  bool was_answered() const { return was_answered_; }

 private:
  void OnEventsOnLoop(uint32_t events) override;
  Status Write();
  Status Read();
  void Finish(const Status& status);

  EventLoop* const loop_;
  UniqueFd fd_;
  const std::unique_ptr<Handshake> handshake_;
  Callback done_;
  const EventLoop::TimerId timer_;
  std::string to_send_;
  std::string received_;  // of the message that the handshake wants next
  bool was_answered_ = false;
};

}  // namespace kungfu
