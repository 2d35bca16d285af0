// The peers that take part, and the runner's announcements of them.

#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <optional>

#include "ops/base/deadline.h"
#include "ops/base/status.h"
#include "ops/plan/peer_list.h"
#include "ops/transport/event_loop.h"

namespace kungfu {

// A membership by its version, and how many peers it has.
struct Headcount {
  uint32_t version = 0;
  int size = 0;

  // The number of a newer membership is greater.
  uint64_t packed() const { return uint64_t{version} << 32 | static_cast<uint32_t>(size); }
  static Headcount Unpacked(uint64_t packed) {
    return {static_cast<uint32_t>(packed >> 32), static_cast<int>(packed & 0xffffffff)};
  }
};

// A list of peers, and its number among all lists of the job. A peer that has left does not come back: a newcomer has a
// new name.
struct Membership {
  uint32_t version = 0;
  PeerList peers;
  // The first version of the change that this list belongs to. If a newcomer ends before it was told, another list with
  // the same `since` replaces this one, whose peers have not met. A list of survivors has that of the newest change.
  // The default: there was no change.
  uint32_t since = ~0u;

  Headcount headcount() const { return {version, peers.size()}; }
};

// The peers of one membership may go through several sessions (another strategy, a fresh start after an error), which
// are invisible outside. A membership has a range of epochs, and begins with the first.
constexpr int kEpochBits = 18;
constexpr uint32_t kMaxVersion = (1u << (32 - kEpochBits)) - 1;
constexpr uint32_t FirstEpoch(uint32_t version) { return version << kEpochBits; }
constexpr uint32_t VersionOf(uint32_t epoch) { return epoch >> kEpochBits; }

// The newest membership that was announced, and the waits for one. Lives on the event loop's thread.
class Announcements {
 public:
  using Known = std::function<void(const StatusOr<Membership>& membership)>;

  // The loop must outlive it. `current`: the membership that is known from the start.
  Announcements(EventLoop* loop, const Membership& current) : loop_(loop), newest_(current) {}
  ~Announcements();

  const Membership& newest() const { return newest_; }
  void AnnounceOnLoop(const Membership& membership);
  // Calls `known` once, at once or later, with a membership that is not older than `version`. If there is a `patience`,
  // and none was announced within it, with kDeadlineExceeded.
  void WhenKnownOnLoop(uint32_t version, std::optional<Seconds> patience, Known known);
  // Nothing will be announced any more.
  void FailOnLoop(const Status& why);
  // Not OK: why nothing will be.
  const Status& failed() const { return failed_; }

 private:
  struct Waiting {
    uint32_t version;
    EventLoop::TimerId timer;
    Known known;
  };
  void Finish(std::list<Waiting>::iterator waiting, const StatusOr<Membership>& membership);

  EventLoop* const loop_;
  Membership newest_;
  Status failed_;
  std::list<Waiting> waiting_;
};

}  // namespace kungfu
