#include "ops/plan/cost.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/cpp/plan/layouts.h"
#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

using testing::PeersOnEqualHosts;

constexpr uint64_t kChunk = 1 << 20;

double SecondsOf(StrategyName name, const PeerList& peers, uint64_t bytes, const LinkCosts& costs) {
  return CostModel(MakeStrategy(name, peers), peers, kChunk).Seconds(bytes, costs);
}

void ExpectNear(double is, double should_be) {
  if (std::abs(is - should_be) <= 1e-9 * should_be) return;
  testing::Fail(__FILE__, __LINE__, std::to_string(is) + " s, not " + std::to_string(should_be));
}

// The closed forms of the header, where a tensor is one chunk: 15 peers make a binary tree of depth 3.
KF_TEST(Cost, OfOneChunkIsItsPath) {
  const PeerList peers = PeersOnEqualHosts(1, 15);
  const LinkCosts costs{{30e-6, 4e-6, 1e-9}, {}};
  for (const uint64_t bytes : {0, 1000, 60000}) {
    const double w = 4e-6 + 1e-9 * static_cast<double>(bytes);
    ExpectNear(SecondsOf(StrategyName::kStar, peers, bytes, costs), 2 * 30e-6 + 2 * 14 * w);
    ExpectNear(SecondsOf(StrategyName::kClique, peers, bytes, costs), 2 * 30e-6 + 2 * 14 * w);
    ExpectNear(SecondsOf(StrategyName::kRing, peers, bytes, costs), 2 * 14 * (30e-6 + w));
    ExpectNear(SecondsOf(StrategyName::kBinaryTree, peers, bytes, costs), 2 * 3 * (30e-6 + 2 * w));
  }
}

// Without latency and overhead only bytes count: what the busiest peer has to send.
KF_TEST(Cost, OfManyChunksIsItsBytes) {
  const PeerList peers = PeersOnEqualHosts(1, 4);
  const LinkCosts costs{{0, 0, 1e-9}, {}};
  const uint64_t bytes = 1024 * kChunk;
  const double n = 1e-9 * static_cast<double>(bytes), chunk = 1e-9 * kChunk;
  ExpectNear(SecondsOf(StrategyName::kRing, peers, bytes, costs), 2 * n * 3 / 4);
  ExpectNear(SecondsOf(StrategyName::kClique, peers, bytes, costs), 2 * n * 3 / 4);
  ExpectNear(SecondsOf(StrategyName::kStar, peers, bytes, costs), 3 * n + 3 * chunk);
}

// The peers of a host share its way out. Only in a ring no host takes from several others, which is slow over thin
// links.
KF_TEST(Cost, BetweenHostsIsWhatLeavesTheHost) {
  const PeerList peers = PeersOnEqualHosts(4, 8);
  const LinkCosts costs{{0, 0, 0}, {0, 0, 10e-9}};
  const uint64_t bytes = 1024 * kChunk;
  const double n = 10e-9 * static_cast<double>(bytes);
  ExpectNear(SecondsOf(StrategyName::kHierarchy, peers, bytes, costs), 1.15 * 2 * n * 3 / 4);
  ExpectNear(SecondsOf(StrategyName::kRing, peers, bytes, costs), 2 * n * 31 / 32);
  ExpectNear(SecondsOf(StrategyName::kClique, peers, bytes, costs), 1.15 * 8 * 2 * n * 3 / 4);
}

// Four hosts: a star's leaf is two latencies from the last result, that of trees four, that of a ring six. All have as
// many bytes to send: of four chunks six messages, the first of them or the last with all latencies. In a ring each
// host takes from one other; else from several, and bytes take 15 % longer.
KF_TEST(Cost, OfManyChunksHasTheLatenciesOfAPath) {
  const PeerList peers = PeersOnEqualHosts(4, 1);
  const LinkCosts costs{{}, {300e-6, 4e-6, 10e-9}};
  const double w = 4e-6 + 10e-9 * kChunk, crowded = 4e-6 + 11.5e-9 * kChunk;
  for (const double rounds : {1, 3}) {
    const uint64_t bytes = static_cast<uint64_t>(rounds) * 4 * kChunk;
    ExpectNear(SecondsOf(StrategyName::kClique, peers, bytes, costs), 2 * 300e-6 + rounds * 6 * crowded);
    ExpectNear(SecondsOf(StrategyName::kMultiBinaryTreeStar, peers, bytes, costs), 4 * 300e-6 + rounds * 6 * crowded);
    ExpectNear(SecondsOf(StrategyName::kRing, peers, bytes, costs), 6 * 300e-6 + rounds * 6 * w);
  }
}

KF_TEST(Choice, OfFewPeersOnOneHostIsAClique) {
  for (const int size : {1, 2, 4}) {
    const Choice choice = Choose(PeersOnEqualHosts(1, size), kChunk, {});
    EXPECT_TRUE(choice.IsValid());
    EXPECT_TRUE(choice.For(0) == StrategyName::kClique && choice.entries[1].strategy == 0);
  }
}

// A star is done after 2 latency + 28w, the tree after 6 latency + 12w. The star is faster by a tenth if w < 3.4/17.2
// latency: with 1 ns per byte and 40 µs below 7907 bytes, so up to the power of two before. In tensors of many chunks
// each root of the clique has some, and bytes decide.
KF_TEST(Choice, CrossesOverWhereTheFormulasSay) {
  const PeerList peers = PeersOnEqualHosts(1, 15);
  const Choice choice = Choose(peers, kChunk, {{40e-6, 0, 1e-9}, {}});
  EXPECT_TRUE(choice.For(0) == StrategyName::kClique);
  EXPECT_TRUE(choice.For((8 << 10) - 1) == StrategyName::kClique);
  EXPECT_TRUE(choice.For(8 << 10) == StrategyName::kBinaryTree);
  EXPECT_TRUE(choice.For(64 << 10) == StrategyName::kBinaryTree);
  EXPECT_TRUE(choice.For(64 << 20) == StrategyName::kClique);
}

// What is slow decides: latency favours few steps, bytes between hosts the hierarchy.
KF_TEST(Choice, OverHostsFollowsTheSlowerLink) {
  const PeerList peers = PeersOnEqualHosts(4, 8);
  EXPECT_TRUE(Choose(peers, kChunk, {{1e-6, 1e-6, 0.1e-9}, {50e-6, 5e-6, 1e-9}}).Last() == StrategyName::kHierarchy);
  EXPECT_TRUE(Choose(peers, kChunk, {{50e-6, 1e-7, 1e-12}, {50e-6, 1e-7, 1e-12}}).For(0) == StrategyName::kClique);
}

// A ring of p peers passes on p-2 sums of each lane: of 2(p-1) messages so many are twice as long.
KF_TEST(Cost, OfSumsThatGrowIsThatOfLongerMessages) {
  const PeerList peers = PeersOnEqualHosts(4, 1);
  const LinkCosts costs{{}, {0, 0, 10e-9}};
  const uint64_t bytes = 1024 * kChunk;
  const double n = 10e-9 * static_cast<double>(bytes);
  const auto seconds = [&](StrategyName name) {
    return CostModel(MakeStrategy(name, peers), peers, kChunk, /*growth=*/2).Seconds(bytes, costs);
  };
  ExpectNear(seconds(StrategyName::kRing), n * (6 + 2) / 4);
  ExpectNear(seconds(StrategyName::kClique), 1.15 * n * 6 / 4);
}

// Whether no peer passes on a sum of several.
bool SendsOwnElementsOnly(StrategyName name, const PeerList& peers) {
  for (const GraphPair& pair : MakeStrategy(name, peers).AllPairs()) {
    for (int rank = 0; rank < peers.size(); ++rank) {
      if (!pair.reduce.Predecessors(rank).empty() && !pair.reduce.Successors(rank).empty()) return false;
    }
  }
  return true;
}

// Over thin links: in a ring no host takes from several others, along stars no sum that has grown travels.
KF_TEST(Choice, BetweenHostsIsARingOrAStarWhereBytesDecide) {
  for (const double per_byte : {80e-9, 8e-9}) {
    for (int hosts = 3; hosts <= 16; ++hosts) {
      const PeerList peers = PeersOnEqualHosts(hosts, 1);
      const Choice choice = Choose(peers, kChunk, {{}, {50e-6, 10e-6, per_byte}});
      for (const uint64_t bytes : {6 << 20, 12 << 20, 100 << 20}) {
        EXPECT_TRUE(choice.For(bytes) == StrategyName::kRing);
        EXPECT_TRUE(SendsOwnElementsOnly(choice.For(bytes, /*grows=*/true), peers));
      }
    }
  }
}

KF_TEST(Choice, BetweenHostsIsACliqueWhereLinksAreFast) {
  for (int hosts = 3; hosts <= 16; ++hosts) {
    const Choice choice = Choose(PeersOnEqualHosts(hosts, 1), kChunk, {{}, {50e-6, 10e-6, 1e-9}});
    for (const bool grows : {false, true}) EXPECT_TRUE(choice.For(12 << 20, grows) == StrategyName::kClique);
  }
}

// Where bytes within a host cost the most a clique has the fewest there, as long as they are messages.
KF_TEST(Choice, PrefersOtherPeersMemory) {
  const PeerList peers = PeersOnEqualHosts(2, 8);
  const LinkCosts costs{{1e-7, 1e-7, 8e-9}, {1e-7, 1e-7, 1e-9}};
  const uint64_t bytes = 64 << 20;
  EXPECT_TRUE(Choose(peers, kChunk, costs).For(bytes) == StrategyName::kClique);
  const Choice choice = Choose(peers, kChunk, costs, 16 << 20);
  EXPECT_TRUE(choice.For(bytes) == StrategyName::kHierarchy);
  EXPECT_TRUE(choice.For(8 << 20) == Choose(peers, kChunk, costs).For(8 << 20));
}

KF_TEST(Choice, GivesNoPeerTooManyConnections) {
  for (const PeerList& peers : {PeersOnEqualHosts(1, 128), PeersOnEqualHosts(16, 8)}) {
    const Choice choice = Choose(peers, kChunk, {});
    for (const Choice::Entry& entry : choice.entries) {
      if (entry.strategy == 0) break;
      const CostModel model(MakeStrategy(static_cast<StrategyName>(entry.strategy), peers), peers, kChunk);
      EXPECT_TRUE(model.connections() <= 64);
    }
  }
}

// Smaller tensors take the same way, whatever their type.
KF_TEST(Choice, OfSumsThatGrowIsInPlaceOfTheLast) {
  Choice choice = Choice::Of(StrategyName::kTree);
  EXPECT_TRUE(choice.For(1000, /*grows=*/true) == StrategyName::kTree);
  choice.entries[1] = {1000, static_cast<uint64_t>(StrategyName::kRing)};
  choice.growing = static_cast<uint64_t>(StrategyName::kClique);
  EXPECT_TRUE(choice.For(999, /*grows=*/true) == StrategyName::kTree);
  EXPECT_TRUE(choice.For(1000, /*grows=*/true) == StrategyName::kClique);
  EXPECT_TRUE(choice.For(1000) == StrategyName::kRing);
}

KF_TEST(Choice, ThatIsNoneIsNotValid) {
  Choice choice = Choice::Of(StrategyName::kRing);
  EXPECT_TRUE(choice.IsValid());
  choice.growing = static_cast<uint64_t>(kNumStrategies);
  EXPECT_FALSE(choice.IsValid());
  choice.growing = 0;
  choice.entries[1] = {1000, static_cast<uint64_t>(StrategyName::kTree)};
  EXPECT_TRUE(choice.IsValid());
  choice.entries[2] = {1000, static_cast<uint64_t>(StrategyName::kStar)};
  EXPECT_FALSE(choice.IsValid());
  choice.entries[2] = {2000, static_cast<uint64_t>(kNumStrategies)};
  EXPECT_FALSE(choice.IsValid());
  EXPECT_FALSE(Choice::Of(StrategyName::kAuto).IsValid());
  choice = Choice::Of(StrategyName::kRing);
  choice.entries[2] = {2000, static_cast<uint64_t>(StrategyName::kTree)};
  EXPECT_FALSE(choice.IsValid());
}

}  // namespace
}  // namespace kungfu
