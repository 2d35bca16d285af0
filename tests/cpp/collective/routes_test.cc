#include "ops/collective/routes.h"

#include <cstddef>
#include <vector>

#include "tests/cpp/plan/layouts.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

// All edges of all graphs would take memory that grows with the square of the peers, in each of them.
KF_TEST(Routes, HaveTheEdgesAroundTheirRankOnly) {
  constexpr int kPeers = 64, kRank = 5;
  const PeerList peers = PeersOnEqualHosts(1, kPeers);
  for (const StrategyName name : {StrategyName::kRing, StrategyName::kClique, StrategyName::kHierarchy}) {
    Routes routes(Choice::Of(name), {}, peers, kRank, 4096);
    Routes::Lanes& lanes = *routes.LanesFor(1, false);
    const Strategy strategy = MakeStrategy(name, peers);
    ASSERT_EQ(lanes.size(), strategy.size());
    size_t edges = 0;
    for (int i = 0; i < lanes.size(); ++i) {
      const GraphPair whole = strategy.Pair(i);
      const Routes::Lane& lane = lanes[i];
      EXPECT_TRUE(lane.reduce->Predecessors(kRank) == whole.reduce.Predecessors(kRank));
      EXPECT_TRUE(lane.reduce->Successors(kRank) == whole.reduce.Successors(kRank));
      EXPECT_TRUE(lane.broadcast->Predecessors(kRank) == whole.broadcast.Predecessors(kRank));
      EXPECT_TRUE(lane.broadcast->Successors(kRank) == whole.broadcast.Successors(kRank));
      for (int rank = 0; rank < kPeers; ++rank) {
        edges += lane.reduce->Predecessors(rank).size() + lane.broadcast->Successors(rank).size();
      }
    }
    EXPECT_LE(edges, size_t{3} * kPeers);  // whole graphs have 2 * 63 in each of 64 lanes
  }
}

KF_TEST(Routes, OfSumsThatGrowAreTheirOwn) {
  constexpr int kRank = 1;
  const PeerList peers = PeersOnEqualHosts(4, 1);
  Choice choice = Choice::Of(StrategyName::kRing);
  choice.growing = static_cast<uint64_t>(StrategyName::kClique);
  Routes routes(choice, {}, peers, kRank, 4096);
  for (const bool grows : {false, true}) {
    const GraphPair whole = MakeStrategy(grows ? StrategyName::kClique : StrategyName::kRing, peers).Pair(kRank);
    const Routes::Lane& lane = (*routes.LanesFor(1, grows))[kRank];
    EXPECT_TRUE(lane.reduce->Predecessors(kRank) == whole.reduce.Predecessors(kRank));
  }
}

}  // namespace
}  // namespace kungfu::testing
