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
#include "tests/cpp/plan/layouts.h"
#include "tests/cpp/plan/strategy_rows.h"
#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

using testing::Cost;
using testing::NumEdges;
using testing::PeersOnEqualHosts;
using testing::PeersOnHosts;
using testing::StrategyRow;
using Ranks = std::vector<int>;

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

KF_TEST(StrategySpec, IsOfSoManyRanks) {
  const StrategySpec tree(Ranks{0, 0, 1});
  EXPECT_EQ(tree.ToString(), "the tree 0,0,1");
  EXPECT_OK(tree.CheckFor(3));
  EXPECT_CONTAINS(tree.CheckFor(4).message(), "parents of 3 ranks, not of 4");
  EXPECT_CONTAINS(StrategySpec(Ranks{1, 0}).CheckFor(2).message(), "no root");
  EXPECT_EQ(StrategySpec(StrategyName::kRing).ToString(), "RING");
  EXPECT_OK(StrategySpec(StrategyName::kRing).CheckFor(2));
}

KF_TEST(StrategySpec, HasADigestOfItsOwn) {
  std::set<uint64_t> digests = {StrategySpec(Ranks{0, 0, 0}).digest(), StrategySpec(Ranks{0, 0, 1}).digest(),
                                StrategySpec(Ranks{1, 1, 1}).digest(), StrategySpec(Ranks{0, 0}).digest()};
  for (int i = 0; i < kNumStrategies; ++i) digests.insert(StrategySpec(static_cast<StrategyName>(i)).digest());
  EXPECT_EQ(digests.size(), 4u + kNumStrategies);
  EXPECT_EQ(StrategySpec(Ranks{0, 0, 1}).digest(), StrategySpec(Ranks{0, 0, 1}).digest());
}

KF_TEST(Strategy, EachHasARow) {
  int number = 0;
  for (const StrategyRow& row : testing::kStrategyRows) EXPECT_EQ(static_cast<int>(row.name), ++number);
  EXPECT_EQ(number + 1, kNumStrategies);  // AUTO has none
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
  for (const StrategyRow& row : testing::kStrategyRows) {
    for (int size = 1; size <= 16; ++size) {
      for (const PeerList& peers : LayoutsOf(size)) {
        const std::vector<GraphPair> strategy = MakeStrategy(row.name, peers).AllPairs();
        EXPECT_FALSE(strategy.empty());
        for (const GraphPair& pair : strategy) {
          CheckPair(pair, size, std::string(Name(row.name)) + " over " + peers.ToString());
        }
      }
    }
  }
}

Ranks RootsOf(const std::vector<GraphPair>& strategy) {
  Ranks roots;
  for (const GraphPair& pair : strategy) roots.push_back(RootOf(pair.reduce));
  return roots;
}

KF_TEST(Strategy, PairsStartWhereTheyShould) {
  const PeerList peers = PeersOnHosts({0, 0, 1, 1, 2, 2});
  const auto roots = [&](StrategyName name) { return RootsOf(MakeStrategy(name, peers).AllPairs()); };
  EXPECT_TRUE(roots(StrategyName::kStar) == (Ranks{0}));
  EXPECT_TRUE(roots(StrategyName::kMultiStar) == (Ranks{0, 2, 4}));
  EXPECT_TRUE(roots(StrategyName::kRing) == (Ranks{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(roots(StrategyName::kClique) == (Ranks{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(roots(StrategyName::kTree) == (Ranks{0}));
  EXPECT_TRUE(roots(StrategyName::kBinaryTree) == (Ranks{0}));
  EXPECT_TRUE(roots(StrategyName::kBinaryTreeStar) == (Ranks{0}));
  EXPECT_TRUE(roots(StrategyName::kMultiBinaryTreeStar) == (Ranks{0, 2, 4}));
  EXPECT_TRUE(roots(StrategyName::kHierarchy) == (Ranks{0, 1, 2, 3, 4, 5}));
}

KF_TEST(Strategy, RingsGoOneWay) {
  for (int size : {2, 3, 7, 64}) {
    for (const GraphPair& pair : MakeStrategy(StrategyName::kRing, PeersOnEqualHosts(1, size)).AllPairs()) {
      for (const Graph* graph : {&pair.reduce, &pair.broadcast}) {
        for (int rank = 0; rank < size; ++rank) {
          for (int to : graph->Successors(rank)) EXPECT_EQ(to, (rank + 1) % size);
        }
      }
    }
  }
}

// Between hosts only one peer of each talks.
KF_TEST(Strategy, HierarchicalStrategiesCrossHostsOnceEachWay) {
  const PeerList peers = PeersOnHosts({0, 1, 0, 1, 2, 2, 2, 3});
  const std::vector<int> hosts = peers.HostOfRanks();
  for (StrategyName name : {StrategyName::kTree, StrategyName::kBinaryTreeStar, StrategyName::kMultiBinaryTreeStar,
                            StrategyName::kHierarchy}) {
    for (const GraphPair& pair : MakeStrategy(name, peers).AllPairs()) {
      int crossings = 0;
      for (int rank = 0; rank < peers.size(); ++rank) {
        for (int to : pair.broadcast.Successors(rank)) crossings += hosts[rank] != hosts[to];
      }
      EXPECT_EQ(crossings, peers.HostCount() - 1);
    }
  }
}

Cost Measure(const std::vector<GraphPair>& strategy, const PeerList& peers) {
  const int size = peers.size();
  const std::vector<int> hosts = peers.HostOfRanks();
  Cost cost;
  cost.pairs = static_cast<double>(strategy.size());
  std::vector<size_t> sent(size), left_host(peers.HostCount());
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
        for (const int to : successors) left_host[hosts[rank]] += hosts[rank] != hosts[to];
        talks_to[rank].insert(successors.begin(), successors.end());
        talks_to[rank].insert(predecessors.begin(), predecessors.end());
      }
    }
  }
  for (int rank = 0; rank < size; ++rank) {
    cost.bytes = std::max(cost.bytes, static_cast<double>(sent[rank]) / strategy.size());
    cost.connections = std::max<double>(cost.connections, talks_to[rank].size());
  }
  for (const size_t left : left_host) {
    cost.between_hosts = std::max(cost.between_hosts, static_cast<double>(left) / strategy.size());
  }
  return cost;
}

void ExpectCost(StrategyName name, const PeerList& peers, const Cost& stated) {
  const Cost measured = Measure(MakeStrategy(name, peers).AllPairs(), peers);
  const auto expect = [&](bool holds, const char* what, double is, double should_be) {
    if (holds) return;
    testing::Fail(__FILE__, __LINE__,
                  std::string(Name(name)) + " over " + std::to_string(peers.HostCount()) + " hosts of " +
                      std::to_string(peers.LocalSize(0)) + ": " + what + " " + std::to_string(is) + ", stated " +
                      std::to_string(should_be));
  };
  const auto near = [&](double a, double b) { return stated.bound ? a <= b : std::abs(a - b) < 1e-9; };
  expect(measured.pairs == stated.pairs, "pairs", measured.pairs, stated.pairs);
  expect(measured.steps == stated.steps, "steps", measured.steps, stated.steps);
  expect(near(measured.bytes, stated.bytes), "bytes", measured.bytes, stated.bytes);
  expect(near(measured.between_hosts, stated.between_hosts), "between hosts", measured.between_hosts,
         stated.between_hosts);
  expect(near(measured.connections, stated.connections), "connections", measured.connections, stated.connections);
}

// The table in strategy.cc, for h hosts of l peers.
KF_TEST(Strategy, CostsWhatItsTableSays) {
  struct Shape {
    int hosts, peers_per_host;
  };
  for (const Shape& shape : {Shape{2, 2}, {3, 2}, {2, 4}, {4, 2}, {5, 3}, {8, 8}, {16, 16}, {4, 64}, {64, 4}}) {
    const PeerList peers = PeersOnEqualHosts(shape.hosts, shape.peers_per_host);
    for (const StrategyRow& row : testing::kStrategyRows) {
      ExpectCost(row.name, peers, testing::StatedCost(row, shape.hosts, shape.peers_per_host));
    }
  }
}

// Each peer of a host carries an equal part of what crosses, to and from its counterparts.
KF_TEST(Strategy, InAHierarchyAllPeersShareTheWayBetweenHosts) {
  constexpr int kHosts = 3, kPeers = 4;
  const PeerList peers = PeersOnEqualHosts(kHosts, kPeers);
  std::vector<int> crossings(peers.size());
  for (const GraphPair& pair : MakeStrategy(StrategyName::kHierarchy, peers).AllPairs()) {
    for (const Graph* graph : {&pair.reduce, &pair.broadcast}) {
      for (int from = 0; from < peers.size(); ++from) {
        for (const int to : graph->Successors(from)) {
          if (from / kPeers == to / kPeers) continue;
          EXPECT_EQ(from % kPeers, to % kPeers);
          ++crossings[from];
        }
      }
    }
  }
  EXPECT_TRUE(crossings == std::vector<int>(peers.size(), 2 * (kHosts - 1)));
}

// While a root receives from one child after the other, each peer of another host sends to one root at a time.
KF_TEST(Strategy, RootsOfStarsBeginWithDifferentChildren) {
  constexpr int kHosts = 5;
  const PeerList peers = PeersOnEqualHosts(kHosts, 1);
  for (const StrategyName name : {StrategyName::kMultiStar, StrategyName::kClique, StrategyName::kHierarchy}) {
    const std::vector<GraphPair> pairs = MakeStrategy(name, peers).AllPairs();
    for (int turn = 0; turn + 1 < kHosts; ++turn) {
      std::set<int> senders, receivers;
      for (const GraphPair& pair : pairs) {
        const int root = RootOf(pair.reduce);
        senders.insert(pair.reduce.Predecessors(root).at(turn));
        receivers.insert(pair.broadcast.Successors(root).at(turn));
      }
      EXPECT_EQ(senders.size(), size_t{kHosts});
      EXPECT_EQ(receivers.size(), size_t{kHosts});
    }
  }
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
