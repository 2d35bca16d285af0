// The ordered peers of one session: a peer's place in the list is its rank.

#pragma once

#include <string>
#include <vector>

#include "ops/base/status.h"
#include "ops/plan/peer_id.h"

namespace kungfu {

class PeerList {
 public:
  PeerList() = default;
  // REQUIRES: no peer twice.
  explicit PeerList(std::vector<PeerId> peers);
  // "127.0.0.1:10000,127.0.0.1:10001": at least one peer, none twice.
  static StatusOr<PeerList> Parse(const std::string& text);

  int size() const { return static_cast<int>(peers_.size()); }
  const PeerId& operator[](int rank) const { return peers_[rank]; }
  const std::vector<PeerId>& peers() const { return peers_; }
  // -1: not in the list.
  int RankOf(const PeerId& peer) const;

  // The place of `rank` among the peers of the same host address, and their number.
  int LocalRank(int rank) const;
  int LocalSize(int rank) const;
  int HostCount() const;
  // Host number of each rank, numbered in order of first appearance.
  std::vector<int> HostOfRanks() const;

  std::string ToString() const;

 private:
  std::vector<PeerId> peers_;
};

}  // namespace kungfu
