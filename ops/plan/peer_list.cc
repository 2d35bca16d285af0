#include "ops/plan/peer_list.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ops/base/logging.h"

namespace kungfu {
namespace {

// A peer that stands in the list twice, or null.
const PeerId* FindDuplicate(std::vector<PeerId>* sorted) {
  std::sort(sorted->begin(), sorted->end());
  const auto found = std::adjacent_find(sorted->begin(), sorted->end());
  return found == sorted->end() ? nullptr : &*found;
}

}  // namespace

PeerList::PeerList(std::vector<PeerId> peers) : peers_(std::move(peers)) {
  std::vector<PeerId> sorted = peers_;
  const PeerId* duplicate = FindDuplicate(&sorted);
  KF_CHECK(duplicate == nullptr) << duplicate->ToString() << " stands twice in the list " << ToString();
}

StatusOr<PeerList> PeerList::Parse(const std::string& text) {
  std::vector<PeerId> peers;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    StatusOr<PeerId> peer = PeerId::Parse(text.substr(begin, end - begin));
    if (!peer.ok()) return peer.status().WithContext("list of peers");
    peers.push_back(*peer);
    begin = end + 1;
  }
  std::vector<PeerId> sorted = peers;
  if (const PeerId* duplicate = FindDuplicate(&sorted)) {
    return InvalidArgumentError("list of peers: " + duplicate->ToString() + " stands in it twice");
  }
  return PeerList(std::move(peers));
}

int PeerList::RankOf(const PeerId& peer) const {
  const auto found = std::find(peers_.begin(), peers_.end(), peer);
  return found == peers_.end() ? -1 : static_cast<int>(found - peers_.begin());
}

int PeerList::LocalRank(int rank) const {
  const HostAddress& host = peers_[rank].host;
  return static_cast<int>(
      std::count_if(peers_.begin(), peers_.begin() + rank, [&](const PeerId& peer) { return peer.host == host; }));
}

int PeerList::LocalSize(int rank) const {
  const HostAddress& host = peers_[rank].host;
  return static_cast<int>(
      std::count_if(peers_.begin(), peers_.end(), [&](const PeerId& peer) { return peer.host == host; }));
}

int PeerList::HostCount() const {
  const std::vector<int> hosts = HostOfRanks();
  return hosts.empty() ? 0 : *std::max_element(hosts.begin(), hosts.end()) + 1;
}

std::vector<int> PeerList::HostOfRanks() const {
  std::map<HostAddress, int> numbers;
  std::vector<int> host_of_rank;
  host_of_rank.reserve(peers_.size());
  for (const PeerId& peer : peers_) {
    host_of_rank.push_back(numbers.emplace(peer.host, static_cast<int>(numbers.size())).first->second);
  }
  return host_of_rank;
}

std::string PeerList::ToString() const {
  std::string text;
  for (const PeerId& peer : peers_) {
    if (!text.empty()) text += ',';
    text += peer.ToString();
  }
  return text;
}

}  // namespace kungfu
