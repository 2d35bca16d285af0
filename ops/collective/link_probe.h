// Measures what messages cost between this peer and others: one of its host, and one of another host, stand for all.
// Three short series of questions (pinger.h) tell the three figures of plan/cost.h apart: single ones, several at once,
// and long ones.

#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ops/collective/pinger.h"
#include "ops/plan/cost.h"
#include "ops/plan/peer_list.h"

namespace kungfu {

// Lives on the event loop's thread.
class LinkProbe {
 public:
  using Done = std::function<void(const LinkCosts& costs)>;

  LinkProbe(Pinger* pinger, const PeerList& peers, int rank);
  // Takes some milliseconds at most, and some of the default figures where answers do not come so soon. `done` may
  // destroy the probe.
  // REQUIRES: all peers have a session.
  void StartOnLoop(Done done);

 private:
  void AskOnLoop(size_t series);
  LinkCost CostOf(int rank, const LinkCost& otherwise) const;

  const std::shared_ptr<int> alive_ = std::make_shared<int>();
  Pinger* const pinger_;
  int local_ = -1, remote_ = -1;              // ranks; -1: there is none
  std::vector<std::vector<double>> seconds_;  // by series
  Done done_;
};

}  // namespace kungfu
