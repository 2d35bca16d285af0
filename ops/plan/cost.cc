#include "ops/plan/cost.h"

#include <algorithm>
#include <set>
#include <utility>

#include "ops/base/logging.h"
#include "ops/plan/partition.h"

namespace kungfu {
namespace {

constexpr int kMostConnections = 64;
constexpr double kWorthAChange = 0.9;
// The cost of a byte in another peer's memory relative to one that is sent through a ring. Measured between four peers
// on two cores with 1 to 100 MiB it is 0.25 to 0.45.
constexpr double kDirectPerByte = 1.0 / 3;
constexpr uint64_t kSmallest = 1 << 10, kLargest = 64 << 20;

// All strategies. If two cost the same the first one is taken: CLIQUE, then the newest.
std::vector<StrategyName> Candidates() {
  std::vector<StrategyName> names = {StrategyName::kClique};
  for (int i = kNumStrategies - 1; i > 0; --i) {
    const auto name = static_cast<StrategyName>(i);
    if (name != StrategyName::kClique) names.push_back(name);
  }
  return names;
}

double Busy(const LinkCost& link, double bytes) { return link.overhead + bytes * link.per_byte; }

// The rank that has no way on.
int RootOf(const Graph& reduce) {
  int rank = 0;
  while (!reduce.Successors(rank).empty()) rank = reduce.Successors(rank)[0];
  return rank;
}

}  // namespace

CostModel::CostModel(const Strategy& strategy, const PeerList& peers, uint64_t chunk_bytes)
    : pairs_(strategy.AllPairs()),
      host_of_rank_(peers.HostOfRanks()),
      chunk_bytes_(chunk_bytes),
      sends_(peers.size()),
      receives_(peers.size()),
      leaving_(peers.HostCount()) {
  std::vector<std::set<int>> talks_to(peers.size());
  for (const GraphPair& pair : pairs_) {
    for (const Graph* graph : {&pair.reduce, &pair.broadcast}) {
      for (int from = 0; from < peers.size(); ++from) {
        for (const int to : graph->Successors(from)) {
          const bool crosses = host_of_rank_[from] != host_of_rank_[to];
          ++(crosses ? sends_[from].remote : sends_[from].local);
          ++(crosses ? receives_[to].remote : receives_[to].local);
          leaving_[host_of_rank_[from]] += crosses;
          talks_to[from].insert(to);
          talks_to[to].insert(from);
        }
      }
    }
  }
  for (const std::set<int>& others : talks_to) connections_ = std::max(connections_, static_cast<int>(others.size()));
}

double CostModel::Ready(const Graph& reduce, int rank, const LinkCosts& costs, uint64_t bytes) const {
  double now = 0;
  for (const int child : reduce.Predecessors(rank)) {
    const LinkCost& link = Of(costs, child, rank);
    now = std::max(now, Ready(reduce, child, costs, bytes) + link.latency) + Busy(link, static_cast<double>(bytes));
  }
  return now;
}

double CostModel::Spread(const Graph& broadcast, int rank, double start, const LinkCosts& costs, uint64_t bytes) const {
  double now = start, last = start;
  for (const int target : broadcast.Successors(rank)) {
    const LinkCost& link = Of(costs, rank, target);
    now += Busy(link, static_cast<double>(bytes));
    last = std::max(last, Spread(broadcast, target, now + link.latency, costs, bytes));
  }
  return last;
}

double CostModel::Path(const GraphPair& pair, const LinkCosts& costs, uint64_t bytes) const {
  const int root = RootOf(pair.reduce);
  return Spread(pair.broadcast, root, Ready(pair.reduce, root, costs, bytes), costs, bytes);
}

double CostModel::Round(const LinkCosts& costs, double bytes) const {
  double round = 0;
  for (const auto* by_rank : {&sends_, &receives_}) {
    for (const Messages& messages : *by_rank) {
      const double busy = messages.local * Busy(costs.local, bytes) + messages.remote * Busy(costs.remote, bytes);
      round = std::max(round, busy);
    }
  }
  for (const int leaving : leaving_) round = std::max(round, leaving * bytes * costs.remote.per_byte);
  return round;
}

double CostModel::Seconds(uint64_t bytes, const LinkCosts& costs) const {
  const int pairs = static_cast<int>(pairs_.size());
  const uint64_t chunks = NumChunks(bytes, 1, pairs, kLeastChunkBytes, chunk_bytes_);
  const uint64_t chunk = bytes / chunks;
  const LinkCosts latencies{{costs.local.latency, 0, 0}, {costs.remote.latency, 0, 0}};
  double path = 0, far = 0;
  for (const GraphPair& pair : pairs_) {
    path = std::max(path, Path(pair, costs, chunk));
    far = std::max(far, Path(pair, latencies, chunk));
  }
  const double round = Round(costs, static_cast<double>(chunk));
  const double rounds = static_cast<double>(chunks) / pairs;
  return std::max(path, far + round * std::min(1.0, rounds)) + round * std::max(0.0, rounds - 1);
}

Choice Choice::Of(StrategyName name) {
  Choice choice;
  choice.entries[0].strategy = static_cast<uint64_t>(name);
  return choice;
}

StrategyName Choice::For(uint64_t bytes) const {
  int i = 0;
  while (i + 1 < kMost && entries[i + 1].strategy != 0 && bytes >= entries[i + 1].from) ++i;
  return static_cast<StrategyName>(entries[i].strategy);
}

StrategyName Choice::Last() const { return For(~uint64_t{0}); }

bool Choice::IsValid() const {
  for (int i = 0; i < kMost; ++i) {
    if (entries[i].strategy >= static_cast<uint64_t>(kNumStrategies)) return false;
    if (i == 0 && (entries[i].from != 0 || entries[i].strategy == 0)) return false;
    if (i > 0 && entries[i].strategy != 0 && (entries[i - 1].strategy == 0 || entries[i].from <= entries[i - 1].from)) {
      return false;
    }
  }
  return true;
}

Choice Choose(const PeerList& peers, uint64_t chunk_bytes, const LinkCosts& costs, uint64_t direct_bytes) {
  if (peers.size() <= 2) return Choice::Of(StrategyName::kClique);
  struct Candidate {
    StrategyName name;
    CostModel model;
  };
  std::vector<Candidate> candidates;
  for (const StrategyName name : Candidates()) {
    CostModel model(MakeStrategy(name, peers), peers, chunk_bytes);
    if (model.connections() <= kMostConnections) candidates.push_back({name, std::move(model)});
  }
  LinkCosts direct = costs;
  direct.local.overhead = 0;
  direct.local.per_byte *= kDirectPerByte;
  std::vector<Choice::Entry> entries;  // from the largest tensors on
  for (uint64_t bytes = kLargest; bytes >= kSmallest; bytes /= 2) {
    const Candidate* best = nullptr;
    double least = 0, current = 0;
    for (const Candidate& candidate : candidates) {
      const bool is_direct = candidate.name == StrategyName::kHierarchy && bytes >= direct_bytes;
      const double seconds = candidate.model.Seconds(bytes, is_direct ? direct : costs);
      if (!entries.empty() && static_cast<uint64_t>(candidate.name) == entries.back().strategy) current = seconds;
      if (best == nullptr || seconds < least) {
        best = &candidate;
        least = seconds;
      }
    }
    const bool is_worth_it = entries.empty() || (least < current * kWorthAChange && entries.size() < Choice::kMost);
    if (is_worth_it) entries.push_back({bytes, static_cast<uint64_t>(best->name)});
    entries.back().from = bytes;
  }
  entries.back().from = 0;
  Choice choice;
  std::copy(entries.rbegin(), entries.rend(), choice.entries);
  return choice;
}

}  // namespace kungfu
