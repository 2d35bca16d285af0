#include "ops/collective/host_meeting.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/base/logging.h"
#include "ops/plan/topology.h"

namespace kungfu {
namespace {

// The size of a verdict, in bytes.
constexpr size_t kLongestVerdict = 512;

constexpr char kUnused[] = "the host's peers do not use each other's memory: ";

}  // namespace

bool HostMeeting::HasPlace(const PeerList& peers, int rank) {
  const int size = peers.LocalSize(rank);
  return size > 1 && size <= DirectGroup::kMostPeers;
}

void HostMeeting::SayIfTooMany(const PeerList& peers, int rank) {
  const int size = peers.LocalSize(rank);
  if (size <= DirectGroup::kMostPeers || peers.LocalRank(rank) != 0) return;
  KF_LOG(WARNING) << kUnused << size << " are more than the " << DirectGroup::kMostPeers << " that can";
}

bool HostMeeting::SomeMeet(const PeerList& peers, int rank, bool met) {
  if (met || HasPlace(peers, rank)) return met;
  for (int other = 0; other < peers.size(); ++other) {
    if (HasPlace(peers, other)) return true;
  }
  return false;
}

HostMeeting::HostMeeting(EventLoop* loop, Arena* arena, const PeerList& peers, int rank, Run run, Met met)
    : loop_(loop), run_(std::move(run)), met_(std::move(met)) {
  const std::vector<int> hosts = peers.HostOfRanks();
  const std::vector<int> roots = HostRootsOf(hosts);
  for (int other = 0; other < peers.size(); ++other) {
    parents_.push_back(roots[hosts[other]]);
    if (other == rank) place_ = static_cast<int>(ranks_.size());
    if (hosts[other] == hosts[rank]) ranks_.push_back(other);
  }
  if (arena == nullptr) {
    verdict_ = "rank " + std::to_string(rank) + " shares no memory";
    return;
  }
  StatusOr<std::unique_ptr<DirectGroup>> group = DirectGroup::Make(loop, arena, ranks_, place_);
  if (group.ok()) {
    group_ = std::move(*group);
    mine_ = group_->endpoint();
  } else {
    verdict_ = "rank " + std::to_string(rank) + ": " + group.status().message();
  }
}

HostMeeting::~HostMeeting() = default;

// All places but one's own are zeros: the sum has them all. There are as many on each host: the operation is the same
// everywhere.
void HostMeeting::ShareOnLoop(const std::string& name, const void* data, size_t size, size_t most,
                              std::function<void()> next) {
  KF_DCHECK(loop_->InLoop());
  said_.assign(DirectGroup::kMostPeers * most, 0);
  std::memcpy(said_.data() + place_ * most, data, size);
  Operation operation;
  operation.kind = Kind::kAllReduce;
  operation.name = name;
  operation.dtype = DType::kUint8;
  operation.parents = parents_;
  operation.spans = {{said_.data(), said_.data(), said_.size()}};
  operation.done = [this, next = std::move(next)](const Status& status) {
    if (!status.ok()) return std::exchange(met_, nullptr)(status);
    next();
  };
  run_(std::move(operation));
}

void HostMeeting::StartOnLoop() {
  KF_DCHECK(loop_->InLoop());
  ShareOnLoop("kungfu/the meeting of the host's peers", &mine_, sizeof(mine_), sizeof(mine_), [this] { OpenOnLoop(); });
}

// A peer without memory says so itself; the others need not report that they cannot open it.
void HostMeeting::OpenOnLoop() {
  KF_DCHECK(loop_->InLoop());
  std::vector<DirectEndpoint> endpoints(ranks_.size());
  std::memcpy(endpoints.data(), said_.data(), endpoints.size() * sizeof(DirectEndpoint));
  const bool all = std::all_of(endpoints.begin(), endpoints.end(),
                               [](const DirectEndpoint& endpoint) { return endpoint.board.size > 0; });
  if (group_ && all) verdict_ = group_->MeetOnLoop(endpoints).message();
  ShareOnLoop("kungfu/the verdict of the host's peers", verdict_.data(), std::min(verdict_.size(), kLongestVerdict),
              kLongestVerdict, [this] { JudgeOnLoop(); });
}

void HostMeeting::JudgeOnLoop() {
  KF_DCHECK(loop_->InLoop());
  std::string text;
  for (size_t place = 0; place < ranks_.size(); ++place) {
    const char* const verdict = said_.data() + place * kLongestVerdict;
    if (*verdict != 0) text += (text.empty() ? "" : "; ") + std::string(verdict, strnlen(verdict, kLongestVerdict));
  }
  if (!text.empty()) {
    if (place_ == 0) KF_LOG(WARNING) << kUnused << text;
    group_ = nullptr;
  }
  std::exchange(met_, nullptr)(std::move(group_));
}

}  // namespace kungfu
