#include "ops/plan/strategy.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "tests/cpp/plan/edges.h"
#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

using testing::NumEdges;
using Ranks = std::vector<int>;

PeerList PeersOnHosts(const std::vector<int>& host_of_rank) {
  std::vector<PeerId> peers;
  for (size_t rank = 0; rank < host_of_rank.size(); ++rank) {
    const StatusOr<HostAddress> host = HostAddress::Parse("10.0.0." + std::to_string(host_of_rank[rank] + 1));
    peers.push_back({*host, static_cast<uint16_t>(10000 + rank)});
  }
  return PeerList(peers);
}

PeerList PeersOnEqualHosts(int hosts, int peers_per_host) {
  std::vector<int> host_of_rank(hosts * peers_per_host);
  for (size_t rank = 0; rank < host_of_rank.size(); ++rank)
    host_of_rank[rank] = static_cast<int>(rank) / peers_per_host;
  return PeersOnHosts(host_of_rank);
}

// `size` peers spread over hosts in several ways.
std::vector<PeerList> LayoutsOf(int size) {
  const auto spread = [size](const std::function<int(int)>& host_of) {
    std::vector<int> host_of_rank(size);
    for (int rank = 0; rank < size; ++rank) host_of_rank[rank] = host_of(rank);
    return PeersOnHosts(host_of_rank);
  };
  return {
      spread([](int) { return 0; }),                                          // one host
      spread([](int rank) { return rank; }),                                  // a host each
      spread([](int rank) { return rank / 4; }),                              // four to a host, the rest on the last
      spread([](int rank) { return rank % 3; }),                              // interleaved
      spread([](int rank) { return static_cast<int>(std::sqrt(2 * rank)); })  // ragged
  };
}

std::vector<StrategyName> AllStrategies() {
  std::vector<StrategyName> names;
  for (int i = 1; i < kNumStrategies; ++i) names.push_back(static_cast<StrategyName>(i));
  return names;
}

// The ranks that a walk against the edges finds, each as often as it is found.
Ranks Collect(const Graph& reduce, int rank) {
  Ranks collected = {rank};
  for (int from : reduce.Predecessors(rank)) {
    const Ranks more = Collect(reduce, from);
    collected.insert(collected.end(), more.begin(), more.end());
  }
  return collected;
}

// The rank that has no way on.
int RootOf(const Graph& reduce) {
  for (int rank = 0; rank < reduce.size(); ++rank) {
    if (reduce.Successors(rank).empty()) return rank;
  }
  return -1;
}

int DepthBelow(const Graph& broadcast, int rank) {
  int depth = 0;
  for (int to : broadcast.Successors(rank)) depth = std::max(depth, 1 + DepthBelow(broadcast, to));
  return depth;
}

void CheckPair(const GraphPair& pair, int size, const std::string& what) {
  const auto expect = [&what](bool holds, const char* property) {
    if (!holds) testing::Fail(__FILE__, __LINE__, what + ": " + property);
  };
  Ranks all(size);
  std::iota(all.begin(), all.end(), 0);
  const int root = RootOf(pair.reduce);
  const auto found_by = [root](const Graph& graph) {
    Ranks ranks = Collect(graph, root);
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  };
  expect(pair.reduce.size() == size && pair.broadcast.size() == size, "as many nodes as peers");
  expect(found_by(pair.reduce) == all, "the root gets what each rank has, once");
  expect(found_by(pair.broadcast.Reversed()) == all, "each rank gets what the root has, once");
  expect(NumEdges(pair.reduce) == size - 1 && NumEdges(pair.broadcast) == size - 1, "no edge more than needed");
  for (int rank = 0; rank < size; ++rank) {
    const size_t expected = rank == root ? 0 : 1;
    expect(pair.reduce.Successors(rank).size() == expected, "one way to the root");
    expect(pair.broadcast.Predecessors(rank).size() == expected, "one way from the root");
  }
}

KF_TEST(Strategy, EveryPairReducesAndBroadcastsOnce) {
  for (StrategyName name : AllStrategies()) {
    for (int size = 1; size <= 16; ++size) {
      for (const PeerList& peers : LayoutsOf(size)) {
        const Strategy strategy = MakeStrategy(name, peers);
        EXPECT_FALSE(strategy.empty());
        for (const GraphPair& pair : strategy) {
          CheckPair(pair, size, std::string(Name(name)) + " over " + peers.ToString());
        }
      }
    }
  }
}

Ranks RootsOf(const Strategy& strategy) {
  Ranks roots;
  for (const GraphPair& pair : strategy) roots.push_back(RootOf(pair.reduce));
  return roots;
}

KF_TEST(Strategy, PairsStartWhereTheyShould) {
  const PeerList peers = PeersOnHosts({0, 0, 1, 1, 2, 2});
  const auto roots = [&](StrategyName name) { return RootsOf(MakeStrategy(name, peers)); };
  EXPECT_TRUE(roots(StrategyName::kStar) == (Ranks{0}));
  EXPECT_TRUE(roots(StrategyName::kMultiStar) == (Ranks{0, 2, 4}));
  EXPECT_TRUE(roots(StrategyName::kRing) == (Ranks{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(roots(StrategyName::kClique) == (Ranks{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(roots(StrategyName::kTree) == (Ranks{0}));
  EXPECT_TRUE(roots(StrategyName::kBinaryTree) == (Ranks{0}));
  EXPECT_TRUE(roots(StrategyName::kBinaryTreeStar) == (Ranks{0}));
  EXPECT_TRUE(roots(StrategyName::kMultiBinaryTreeStar) == (Ranks{0, 2, 4}));
}

KF_TEST(Strategy, RingsGoOneWay) {
  for (int size : {2, 3, 7, 64}) {
    for (const GraphPair& pair : MakeStrategy(StrategyName::kRing, PeersOnEqualHosts(1, size))) {
      for (const Graph* graph : {&pair.reduce, &pair.broadcast}) {
        for (int rank = 0; rank < size; ++rank) {
          for (int to : graph->Successors(rank)) EXPECT_EQ(to, (rank + 1) % size);
        }
      }
    }
  }
}

// Between hosts only masters talk.
KF_TEST(Strategy, HierarchicalStrategiesCrossHostsOnceEachWay) {
  const PeerList peers = PeersOnHosts({0, 1, 0, 1, 2, 2, 2, 3});
  const std::vector<int> hosts = peers.HostOfRanks();
  for (StrategyName name : {StrategyName::kTree, StrategyName::kBinaryTreeStar, StrategyName::kMultiBinaryTreeStar}) {
    for (const GraphPair& pair : MakeStrategy(name, peers)) {
      int crossings = 0;
      for (int rank = 0; rank < peers.size(); ++rank) {
        for (int to : pair.broadcast.Successors(rank)) crossings += hosts[rank] != hosts[to];
      }
      EXPECT_EQ(crossings, peers.HostCount() - 1);
    }
  }
}

struct Cost {
  double pairs, steps, bytes, connections;  // bytes in units of the tensor
};

Cost Measure(const Strategy& strategy, int size) {
  Cost cost = {static_cast<double>(strategy.size()), 0, 0, 0};
  std::vector<size_t> sent(size);
  std::vector<std::set<int>> talks_to(size);
  for (const GraphPair& pair : strategy) {
    const int root = RootOf(pair.reduce);
    const int steps = DepthBelow(pair.reduce.Reversed(), root) + DepthBelow(pair.broadcast, root);
    cost.steps = std::max<double>(cost.steps, steps);
    for (const Graph* graph : {&pair.reduce, &pair.broadcast}) {
      for (int rank = 0; rank < size; ++rank) {
        const Ranks& successors = graph->Successors(rank);
        const Ranks& predecessors = graph->Predecessors(rank);
        sent[rank] += successors.size();
        talks_to[rank].insert(successors.begin(), successors.end());
        talks_to[rank].insert(predecessors.begin(), predecessors.end());
      }
    }
  }
  for (int rank = 0; rank < size; ++rank) {
    cost.bytes = std::max(cost.bytes, static_cast<double>(sent[rank]) / strategy.size());
    cost.connections = std::max<double>(cost.connections, talks_to[rank].size());
  }
  return cost;
}

void ExpectCost(StrategyName name, const PeerList& peers, const Cost& stated, bool bytes_are_a_bound = false) {
  const Cost measured = Measure(MakeStrategy(name, peers), peers.size());
  const auto expect = [&](bool holds, const char* what, double is, double should_be) {
    if (holds) return;
    testing::Fail(__FILE__, __LINE__,
                  std::string(Name(name)) + " over " + std::to_string(peers.HostCount()) + " hosts of " +
                      std::to_string(peers.LocalSize(0)) + ": " + what + " " + std::to_string(is) + ", stated " +
                      std::to_string(should_be));
  };
  const auto near = [](double a, double b) { return std::abs(a - b) < 1e-9; };
  expect(measured.pairs == stated.pairs, "pairs", measured.pairs, stated.pairs);
  expect(measured.steps == stated.steps, "steps", measured.steps, stated.steps);
  if (bytes_are_a_bound) {
    expect(measured.bytes <= stated.bytes, "bytes", measured.bytes, stated.bytes);
    expect(measured.connections <= stated.connections, "connections", measured.connections, stated.connections);
  } else {
    expect(near(measured.bytes, stated.bytes), "bytes", measured.bytes, stated.bytes);
    expect(measured.connections == stated.connections, "connections", measured.connections, stated.connections);
  }
}

// The table in strategy.cc, for h hosts of l peers.
KF_TEST(Strategy, CostsWhatItsTableSays) {
  struct Shape {
    int hosts, peers_per_host;
  };
  for (const Shape& shape : {Shape{2, 2}, {3, 2}, {2, 4}, {4, 2}, {5, 3}, {8, 8}, {16, 16}, {4, 64}, {64, 4}}) {
    const double h = shape.hosts, l = shape.peers_per_host, p = h * l;
    const PeerList peers = PeersOnEqualHosts(shape.hosts, shape.peers_per_host);
    const double log_p = std::floor(std::log2(p)), log_h = std::floor(std::log2(h));
    ExpectCost(StrategyName::kStar, peers, {1, 2, p - 1, p - 1});
    ExpectCost(StrategyName::kMultiStar, peers, {h, 2, (p + h - 2) / h, p - 1});
    ExpectCost(StrategyName::kRing, peers, {p, 2 * (p - 1), 2 * (p - 1) / p, 2});
    ExpectCost(StrategyName::kClique, peers, {p, 2, 2 * (p - 1) / p, p - 1});
    ExpectCost(StrategyName::kTree, peers, {1, 4, l + h - 2, l + h - 2});
    ExpectCost(StrategyName::kBinaryTree, peers, {1, 2 * log_p, 3, 3}, true);
    ExpectCost(StrategyName::kBinaryTreeStar, peers, {1, 2 * (1 + log_h), l + 2, l + 2}, true);
    ExpectCost(StrategyName::kMultiBinaryTreeStar, peers, {h, 2 * (1 + log_h), l - 1 + 2 * (h - 1) / h, l + h - 2});
  }
}

KF_TEST(Strategy, AutoIsCliqueOnOneHostAndTreesOverSeveral) {
  EXPECT_EQ(Choose(PeersOnEqualHosts(1, 1)), StrategyName::kClique);
  EXPECT_EQ(Choose(PeersOnEqualHosts(1, 4)), StrategyName::kClique);
  EXPECT_EQ(Choose(PeersOnEqualHosts(2, 1)), StrategyName::kMultiBinaryTreeStar);
}

KF_TEST(Strategy, NamesAreParsedInAnyCase) {
  for (int i = 0; i < kNumStrategies; ++i) {
    const auto name = static_cast<StrategyName>(i);
    std::string lower;
    for (const char* c = Name(name); *c != '\0'; ++c) lower += static_cast<char>(std::tolower(*c));
    for (const std::string& text : {std::string(Name(name)), lower}) {
      const StatusOr<StrategyName> parsed = ParseStrategy(text);
      ASSERT_TRUE(parsed.ok());
      EXPECT_EQ(*parsed, name);
    }
  }
}

KF_TEST(Strategy, UnknownNamesAreToldTheKnownOnes) {
  for (const char* text : {"", "RINGS", "RIN", "BINARY TREE", " RING"}) {
    const StatusOr<StrategyName> parsed = ParseStrategy(text);
    ASSERT_TRUE(!parsed.ok());
    EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument);
    EXPECT_CONTAINS(parsed.status().message(), "'" + std::string(text) + "' is no strategy");
    EXPECT_CONTAINS(parsed.status().message(), "AUTO, STAR, MULTI_STAR, RING, CLIQUE, TREE, BINARY_TREE");
  }
}

}  // namespace
}  // namespace kungfu
