// Peers on hosts that are only addresses.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/plan/peer_list.h"

namespace kungfu::testing {

inline PeerList PeersOnHosts(const std::vector<int>& host_of_rank) {
  std::vector<PeerId> peers;
  for (size_t rank = 0; rank < host_of_rank.size(); ++rank) {
    const StatusOr<HostAddress> host = HostAddress::Parse("10.0.0." + std::to_string(host_of_rank[rank] + 1));
    peers.push_back({*host, static_cast<uint16_t>(10000 + rank)});
  }
  return PeerList(peers);
}

inline PeerList PeersOnEqualHosts(int hosts, int peers_per_host) {
  std::vector<int> host_of_rank(hosts * peers_per_host);
  for (size_t rank = 0; rank < host_of_rank.size(); ++rank)
    host_of_rank[rank] = static_cast<int>(rank) / peers_per_host;
  return PeersOnHosts(host_of_rank);
}

}  // namespace kungfu::testing
