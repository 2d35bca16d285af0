// Finds a peer of our host that listens where we do not look for it: it was told another transport than we.
//
// Its handshake says so to both sides. It finds no peer that listens at the right place, or not at all: connecting to
// that continues meanwhile.

#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ops/base/deadline.h"
#include "ops/base/status.h"
#include "ops/transport/event_loop.h"
#include "ops/transport/handshake.h"
#include "ops/transport/socket/address_family.h"
#include "ops/transport/socket/pending_connection.h"

namespace kungfu {

// Event loop only. Destroying it gives up and makes no calls.
class Search {
 public:
  // Tells the difference (kInvalidArgument). Called once, from the loop; may destroy this object.
  using Found = std::function<void(const Status& why)>;

  // `families` must outlive it.
  Search(EventLoop* loop, const AddressFamilies& families, const Credentials& credentials, const PeerId& remote,
         Found found);
  ~Search();
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

 private:
  // Also before it looks for the first time: a peer that is there is reached sooner, and costs no search.
  static constexpr Seconds kInterval{0.5};

  void LookLater();
  void Look();

  EventLoop* const loop_;
  const AddressFamilies& families_;
  const Credentials credentials_;
  const PeerId remote_;
  Found found_;
  std::vector<std::unique_ptr<PendingConnection>> pending_;  // by family; null: none
  EventLoop::TimerId timer_;
};

}  // namespace kungfu
