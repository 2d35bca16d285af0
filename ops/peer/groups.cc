// Groups of peers: how all agree on them, and how operations find them.
//
// A group's number has the membership's version and a count, the same on all peers. Each proposes a count above all
// that it knows; the highest is taken. So peers that have missed one by an error come into step again.

#include <algorithm>
#include <string>
#include <utility>

#include "ops/elastic/membership.h"
#include "ops/peer/peer.h"

namespace kungfu {
namespace {

constexpr char kMakingName[] = "kungfu/the making of a group";
constexpr int kCountBits = 32;

uint64_t NumberOf(uint32_t version, uint32_t count) { return (static_cast<uint64_t>(version) << kCountBits) | count; }

// The words of each peer: a count and its ranks.
struct Making {
  std::vector<int32_t> mine, all;
  std::vector<uint64_t> lengths;
};

std::string Of(const Session& session, int rank, const std::vector<int>& ranks) {
  return RanksText(ranks) + " at rank " + std::to_string(rank) + " (" + session.peers()[rank].ToString() + ")";
}

// Returns the highest count, where all have the same ranks.
StatusOr<uint32_t> Compare(const Session& session, const Making& making) {
  uint32_t count = 0;
  std::vector<int> first;
  auto words = making.all.begin();
  for (int rank = 0; rank < session.size(); ++rank) {
    const auto end = words + static_cast<std::ptrdiff_t>(making.lengths[rank]);
    count = std::max(count, static_cast<uint32_t>(*words));
    const std::vector<int> ranks(words + 1, end);
    if (rank == 0) first = ranks;
    if (ranks != first) {
      return InvalidArgumentError("a group differs between peers: " + Of(session, 0, first) + ", but " +
                                  Of(session, rank, ranks));
    }
    words = end;
  }
  return count;
}

Status CheckRanks(const std::vector<int>& ranks, int size) {
  const auto invalid = [&](const std::string& why) {
    return InvalidArgumentError("a group of " + RanksText(ranks) + ": " + why);
  };
  if (ranks.empty()) return InvalidArgumentError("a group of no ranks");
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= size) {
      return invalid(std::to_string(ranks[i]) + " is not a rank of " + std::to_string(size) + " peers");
    }
    if (i > 0 && ranks[i] == ranks[i - 1]) return invalid("rank " + std::to_string(ranks[i]) + " is there twice");
  }
  return OkStatus();
}

}  // namespace

void Peer::AddGroup(std::vector<int> ranks, std::function<void(const StatusOr<uint64_t>&)> done) {
  std::sort(ranks.begin(), ranks.end());
  const std::shared_ptr<Session> now = session();
  auto making = std::make_shared<Making>();
  making->mine = {static_cast<int32_t>(++last_group_)};
  making->mine.insert(making->mine.end(), ranks.begin(), ranks.end());
  Operation meet;
  meet.kind = Kind::kAllGather;
  meet.name = kMakingName;
  meet.of_core = true;
  meet.dtype = DType::kInt32;
  meet.spans = {{making->mine.data(), nullptr, making->mine.size()}};
  meet.allocate = [making](const std::vector<uint64_t>& counts) {
    uint64_t total = 0;
    for (const uint64_t count : counts) total += count;
    making->lengths = counts;
    making->all.resize(total);
    return making->all.data();
  };
  meet.done = [this, now, making, ranks, done](const Status& status) {
    if (!status.ok()) return done(status);
    const StatusOr<uint32_t> count = Compare(*now, *making);
    if (!count.ok()) return done(count.status());
    last_group_ = std::max<uint32_t>(last_group_, *count);
    const Status valid = CheckRanks(ranks, now->size());
    if (!valid.ok()) return done(valid);
    const uint64_t number = NumberOf(VersionOf(now->epoch()), *count);
    now->AddGroup(number, ranks);
    done(number);
  };
  now->Start(std::move(meet));
}

void Peer::RemoveGroup(uint64_t number) {
  const auto remove = [this, number] { session()->CloseGroup(number); };
  if (!RunAndWait(remove)) remove();
}

StatusOr<std::shared_ptr<Session>> Peer::SessionOf(uint64_t group) const {
  const std::shared_ptr<Session> now = session();
  if (group == 0) return now;
  const std::shared_ptr<const Session::Group> found = now->FindGroup(group);
  if (found && found->session) return found->session;
  if (found) {
    return InvalidArgumentError("rank " + std::to_string(now->rank()) + " is not in the group of " +
                                RanksText(found->ranks));
  }
  const uint64_t version = group >> kCountBits;
  if (version == VersionOf(now->epoch())) return Status(Code::kAborted, "the group was removed");
  return Status(Code::kAborted, "the group is of membership version " + std::to_string(version) +
                                    ", and the peers are now those of version " +
                                    std::to_string(VersionOf(now->epoch())) + ": make the group anew");
}

uint64_t Peer::StartInGroup(Operation&& operation) {
  const StatusOr<std::shared_ptr<Session>> group = SessionOf(operation.group);
  if (group.ok()) return (*group)->Start(std::move(operation));
  operation.done(group.status().WithContext(Title(operation)));
  return 0;
}

}  // namespace kungfu
