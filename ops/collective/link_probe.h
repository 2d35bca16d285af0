// Measures what messages cost between this peer and others: one of its host, and one of another host, stand for all.
// Questions of the three kinds of plan/link_estimate.h take turns, so that a load that comes or goes meets them all.
//
// Cost: to each of the two at most 108 questions, with 1.5 MiB, and as many answers; about a millisecond through shared
// memory. On a slow link it ends after 25 ms within a host, and after 2 s between hosts: the answers until then count.

#pragma once

#include <functional>
#include <memory>

#include "ops/base/deadline.h"
#include "ops/collective/pinger.h"
#include "ops/plan/link_estimate.h"
#include "ops/plan/peer_list.h"

namespace kungfu {

// Lives on the event loop's thread.
class LinkProbe {
 public:
  using Done = std::function<void(const LinkEstimates& estimates)>;

  LinkProbe(Pinger* pinger, const PeerList& peers, int rank);
  // One link after the other. `done` may destroy the probe.
  // REQUIRES: all peers have a session.
  void StartOnLoop(Done done);

 private:
  // Calls `next` with what messages to `rank` cost; with nothing if there is no such rank.
  using Next = std::function<void(const std::optional<LinkEstimate>& estimate)>;
  struct Link {
    int rank;
    LinkBounds bounds;
    LinkSamples samples;
    Deadline deadline;
    Next next;
  };

  void MeasureOnLoop(int rank, const LinkBounds& bounds, Next next);
  void AskOnLoop(int question);

  const std::shared_ptr<int> alive_ = std::make_shared<int>();
  Pinger* const pinger_;
  int local_ = -1, remote_ = -1;  // ranks; -1: there is none
  Link link_;                     // being measured
  LinkEstimates estimates_;
  Done done_;
};

}  // namespace kungfu
