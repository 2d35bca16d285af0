// Listens, and lets in peers that pass the handshake.
//
// A newcomer cannot hold up others: each plays its handshake on its own, within 5 s, and at most kMaxPending of them at
// a time. One more costs the oldest one its place, those that have said nothing of worth first. Otherwise 64 idle
// connections could keep all newcomers out for 5 s, again and again. With this rule an attacker must open 64
// connections within the round trip of an honest handshake. A peer that loses its place to honest ones tries again.

#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>

#include "ops/base/status.h"
#include "ops/transport/event_loop.h"
#include "ops/transport/handshake.h"
#include "ops/transport/socket/address_family.h"
#include "ops/transport/socket/pending_connection.h"

namespace kungfu {

// Event loop only. Destroying it closes the listening socket and abandons handshakes.
class Acceptor : private FdHandler {
 public:
  static constexpr size_t kMaxPending = 64;
  // Without descriptors or memory: connections wait in the system's queue for so long.
  static constexpr Seconds kPause{0.1};

  // A peer that has come, or kInvalidArgument: there can be no connection with it. Called from the loop; may destroy
  // this object.
  using Callback = std::function<void(StatusOr<UniqueFd>, const PeerId&)>;

  // `listening` is what family->Listen returned.
  Acceptor(EventLoop* loop, AddressFamily* family, const Credentials& credentials, UniqueFd listening,
           Callback accepted);
  ~Acceptor() override;
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

 private:
  // At one event; then the others have their turn.
  static constexpr int kMaxAccepts = 16;

  void OnEventsOnLoop(uint32_t events) override;
  void Pause(int error);
  void Admit(UniqueFd fd);
  void DropOldest();

  EventLoop* const loop_;
  AddressFamily* const family_;
  const Credentials credentials_;
  UniqueFd listening_;
  const Callback accepted_;
  std::list<std::unique_ptr<PendingConnection>> pending_;  // oldest first
  bool starved_ = false;                                   // nothing was accepted since the last pause
  std::optional<EventLoop::TimerId> pause_timer_;
};

}  // namespace kungfu
