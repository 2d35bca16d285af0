#include "ops/peer/place.h"

#include <string>

#include "ops/elastic/membership.h"

namespace kungfu {

StatusOr<Place> Place::From(const Config& config) {
  PeerId self;
  self.host = *HostAddress::Parse("127.0.0.1");
  Place place;
  place.peers = PeerList({self});
  if (!config.self.empty()) {
    StatusOr<PeerId> id = PeerId::Parse(config.self);
    if (!id.ok()) return id.status().WithContext("KUNGFU_SELF");
    self = *id;
    StatusOr<PeerList> list = PeerList::Parse(config.peers.empty() ? config.self : config.peers);
    if (!list.ok()) return list.status().WithContext("KUNGFU_PEERS");
    place.peers = *list;
  }
  place.rank = place.peers.RankOf(self);
  if (place.rank < 0) {
    return InvalidArgumentError("KUNGFU_SELF " + config.self + " is not in KUNGFU_PEERS " + config.peers);
  }
  if (config.membership_version < 0 || config.membership_version > static_cast<int>(kMaxVersion)) {
    return InvalidArgumentError("KUNGFU_MEMBERSHIP_VERSION " + std::to_string(config.membership_version) +
                                " is more than " + std::to_string(kMaxVersion));
  }
  place.version = static_cast<uint32_t>(config.membership_version);
  place.agreed = {place.version, place.peers.size()};
  place.elastic = config.membership != "static";
  place.joining = config.membership == "joining";
  return place;
}

}  // namespace kungfu
