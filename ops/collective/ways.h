// The ways of all-reduces by size in a session: the effect of its strategy on this host.

#pragma once

#include <cstdint>
#include <string>

#include "ops/plan/cost.h"

namespace kungfu {

enum class Way {
  kGraphs,     // the strategy's (graph_executor.h)
  kExchange,   // from every peer to every other (exchange_mover.h)
  kDirect,     // in memory that all peers map (direct_mover.h)
  kHierarchy,  // within hosts in memory, between them along graphs (hierarchy_mover.h)
};

struct Ways {
  Choice choice;
  int size = 0;               // of the session
  bool exchanges = false;     // small ones need no strategy; those that fit notes need none in any case
  int meeting = 0;            // peers of this host that use each other's memory, this one among them; 0: none
  uint64_t direct_bytes = 0;  // from which on they do

  // `grows`: sums of several peers are longer (AccumulatorOf).
  Way For(uint64_t bytes, bool grows = false) const;
  // "all-reduces go along CLIQUE up to 65535 bytes, then in memory that all peers map"; there are at least two peers.
  std::string ToString() const;

 private:
  std::string Describe(uint64_t bytes) const;
};

}  // namespace kungfu
