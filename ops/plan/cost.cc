#include "ops/plan/cost.h"

#include <algorithm>
#include <limits>
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
// The time of a byte between hosts where several send to one at once, relative to one that has a way for itself.
// Measured over TCP, with CLIQUE and RING on four hosts with 100 Mbit/s, it is 1.15 to 1.2. Above 2 Gbit/s, where a
// byte takes less than kThin, nothing was measured.
constexpr double kCrowded = 1.15;
constexpr double kThin = 4e-9;
// Of the sums of 16-bit types, which are made in float32.
constexpr int kGrowth = 2;
constexpr uint64_t kSmallest = 1 << 10, kLargest = 64 << 20;

// All strategies, those first that are taken in doubt: CLIQUE, then the newest.
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

// The strategies that may be chosen.
class Contest {
 public:
  Contest(const PeerList& peers, uint64_t chunk_bytes, const LinkCosts& costs, uint64_t direct_bytes, int growth)
      : costs_(costs), direct_(costs), direct_bytes_(direct_bytes) {
    direct_.local.overhead = 0;
    direct_.local.per_byte *= kDirectPerByte;
    for (const StrategyName name : Candidates()) {
      CostModel model(MakeStrategy(name, peers), peers, chunk_bytes, growth);
      if (model.connections() <= kMostConnections) models_.emplace_back(name, std::move(model));
    }
  }

  // Of a strategy that may be chosen.
  double Seconds(uint64_t strategy, uint64_t bytes) const {
    const auto name = static_cast<StrategyName>(strategy);
    const auto model =
        std::find_if(models_.begin(), models_.end(), [name](const auto& one) { return one.first == name; });
    const bool is_direct = name == StrategyName::kHierarchy && bytes >= direct_bytes_;
    return model->second.Seconds(bytes, is_direct ? direct_ : costs_);
  }

  // One that comes later among the candidates must take less than `lead` times as long as the best before.
  uint64_t FastestFor(uint64_t bytes, double lead = 1) const {
    uint64_t fastest = 0;
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [name, model] : models_) {
      const double seconds = Seconds(static_cast<uint64_t>(name), bytes);
      if (seconds >= least * lead) continue;
      least = seconds;
      fastest = static_cast<uint64_t>(name);
    }
    return fastest;
  }

 private:
  const LinkCosts costs_;
  LinkCosts direct_;  // of HIERARCHY in memory
  const uint64_t direct_bytes_;
  std::vector<std::pair<StrategyName, CostModel>> models_;
};

}  // namespace

CostModel::CostModel(const Strategy& strategy, const PeerList& peers, uint64_t chunk_bytes, int growth)
    : pairs_(strategy.AllPairs()),
      host_of_rank_(peers.HostOfRanks()),
      chunk_bytes_(chunk_bytes),
      sends_(peers.size()),
      receives_(peers.size()),
      leaving_(peers.HostCount()),
      growth_(growth) {
  std::vector<std::set<int>> talks_to(peers.size()), takes_from(peers.HostCount());
  for (const GraphPair& pair : pairs_) {
    for (const Graph* graph : {&pair.reduce, &pair.broadcast}) {
      for (int from = 0; from < peers.size(); ++from) {
        const bool has_grown = graph == &pair.reduce && !graph->Predecessors(from).empty();
        const int messages = has_grown ? growth : 1;
        for (const int to : graph->Successors(from)) {
          const bool crosses = host_of_rank_[from] != host_of_rank_[to];
          (crosses ? sends_[from].remote : sends_[from].local) += messages;
          (crosses ? receives_[to].remote : receives_[to].local) += messages;
          if (crosses) {
            leaving_[host_of_rank_[from]] += messages;
            takes_from[host_of_rank_[to]].insert(host_of_rank_[from]);
          }
          talks_to[from].insert(to);
          talks_to[to].insert(from);
        }
      }
    }
  }
  for (const std::set<int>& others : talks_to) connections_ = std::max(connections_, static_cast<int>(others.size()));
  for (const std::set<int>& others : takes_from) is_crowded_ |= others.size() > 1;
}

double CostModel::Ready(const Graph& reduce, int rank, const LinkCosts& costs, uint64_t bytes) const {
  double now = 0;
  for (const int child : reduce.Predecessors(rank)) {
    const LinkCost& link = Of(costs, child, rank);
    const uint64_t arriving = reduce.Predecessors(child).empty() ? bytes : bytes * growth_;
    now = std::max(now, Ready(reduce, child, costs, bytes) + link.latency) + Busy(link, static_cast<double>(arriving));
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
  LinkCost remote = costs.remote;
  if (is_crowded_ && remote.per_byte >= kThin) remote.per_byte *= kCrowded;
  double round = 0;
  for (const auto* by_rank : {&sends_, &receives_}) {
    for (const Messages& messages : *by_rank) {
      const double busy = messages.local * Busy(costs.local, bytes) + messages.remote * Busy(remote, bytes);
      round = std::max(round, busy);
    }
  }
  for (const int leaving : leaving_) round = std::max(round, leaving * bytes * remote.per_byte);
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

StrategyName Choice::For(uint64_t bytes, bool grows) const {
  const auto is_there = [this](int i) { return i < kMost && entries[i].strategy != 0; };
  int i = 0;
  while (is_there(i + 1) && bytes >= entries[i + 1].from) ++i;
  return static_cast<StrategyName>(grows && growing != 0 && !is_there(i + 1) ? growing : entries[i].strategy);
}

StrategyName Choice::Last() const { return For(~uint64_t{0}); }

bool Choice::IsValid() const {
  if (growing >= static_cast<uint64_t>(kNumStrategies)) return false;
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
  Choice choice;
  choice.growing = Contest(peers, chunk_bytes, costs, direct_bytes, kGrowth).FastestFor(kLargest, kWorthAChange);
  const Contest plain(peers, chunk_bytes, costs, direct_bytes, /*growth=*/1);
  std::vector<Choice::Entry> entries;  // from the largest tensors on
  for (uint64_t bytes = kLargest; bytes >= kSmallest; bytes /= 2) {
    const uint64_t fastest = plain.FastestFor(bytes, entries.empty() ? kWorthAChange : 1);
    const bool is_worth_it = entries.empty() || (entries.size() < Choice::kMost &&
                                                 plain.Seconds(fastest, bytes) <
                                                     plain.Seconds(entries.back().strategy, bytes) * kWorthAChange);
    if (is_worth_it) entries.push_back({bytes, fastest});
    entries.back().from = bytes;
  }
  entries.back().from = 0;
  std::copy(entries.rbegin(), entries.rend(), choice.entries);
  return choice;
}

}  // namespace kungfu
