// Where a process stands among the peers.

#pragma once

#include <cstdint>

#include "ops/base/status.h"
#include "ops/elastic/membership.h"
#include "ops/peer/config.h"
#include "ops/plan/peer_list.h"

namespace kungfu {

struct Place {
  PeerList peers;
  int rank = 0;          // -1: takes no part any more
  uint32_t version = 0;  // of the membership
  Headcount agreed;      // see Peer::Advance
  bool elastic = false;  // memberships may change
  bool joining = false;  // a newcomer that was not taken in yet
  bool outdated = false;
  bool interrupted = false;

  // REQUIRES: takes part.
  const PeerId& self() const { return peers[rank]; }
  // Where a peer of this configuration begins; without config.self as one of one.
  static StatusOr<Place> From(const Config& config);
};

}  // namespace kungfu
