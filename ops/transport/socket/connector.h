// Tries to reach one peer, again and again, until it is authenticated or a deadline passes.

#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "ops/transport/event_loop.h"
#include "ops/transport/handshake.h"
#include "ops/transport/socket/address_family.h"
#include "ops/transport/socket/pending_connection.h"

namespace kungfu {

// Event loop only. Destroying it gives up and makes no calls.
class Connector {
 public:
  // Called once, from the loop, never inside the constructor; may destroy this object. An error is kDeadlineExceeded
  // (it says what went wrong last), kPermissionDenied or kInvalidArgument.
  using Callback = std::function<void(StatusOr<UniqueFd>)>;

  Connector(EventLoop* loop, AddressFamily* family, const Credentials& credentials, const PeerId& remote,
            Deadline deadline, Callback done);
  ~Connector();
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

 private:
  static constexpr Seconds kFirstBackoff{0.01}, kLongestBackoff{0.5};

  void Try();
  void OnFailure(const Status& status);
  void RunAt(Deadline when, std::function<void()> task);
  void Finish(StatusOr<UniqueFd> result);

  EventLoop* const loop_;
  AddressFamily* const family_;
  const Credentials credentials_;
  const PeerId remote_;
  const Clock::time_point start_ = Clock::now();
  const Deadline deadline_;
  Callback done_;
  Seconds backoff_ = kFirstBackoff;
  std::unique_ptr<PendingConnection> pending_;
  std::optional<EventLoop::TimerId> timer_;
};

}  // namespace kungfu
