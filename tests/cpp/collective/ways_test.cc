#include "ops/collective/ways.h"

#include <string>

#include "ops/collective/exchange_mover.h"
#include "ops/collective/notes.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

// From 64 KiB on RING, and HIERARCHY from 1 MiB on.
Choice Three() {
  Choice choice = Choice::Of(StrategyName::kClique);
  choice.entries[1] = {64 << 10, static_cast<uint64_t>(StrategyName::kRing)};
  choice.entries[2] = {1 << 20, static_cast<uint64_t>(StrategyName::kHierarchy)};
  return choice;
}

KF_TEST(Ways, OfOneStrategy) {
  const Ways ways{Choice::Of(StrategyName::kRing), 4, false, 0, 64 << 10};
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1} << 40}) EXPECT_TRUE(ways.For(bytes) == Way::kGraphs);
  EXPECT_EQ(ways.ToString(), "all-reduces go along RING");
}

KF_TEST(Ways, OfSumsThatGrow) {
  Ways ways{Three(), 4, false, 2, 64 << 10};
  ways.choice.growing = static_cast<uint64_t>(StrategyName::kClique);
  EXPECT_TRUE(ways.For(1 << 20) == Way::kHierarchy);
  EXPECT_TRUE(ways.For(1 << 20, /*grows=*/true) == Way::kGraphs);
  EXPECT_EQ(
      ways.ToString(),
      "all-reduces go along CLIQUE up to 65535 bytes, then along RING up to 1048575 bytes, then along HIERARCHY, and "
      "within a host in memory that its peers map; large sums of 16-bit types along CLIQUE");
}

// What fits a note needs no strategy, and no cores.
KF_TEST(Ways, OfNotes) {
  const Ways ways{Choice::Of(StrategyName::kClique), 4, false, 4, 64 << 10};
  EXPECT_TRUE(ways.For(Notes::kMost) == Way::kExchange && ways.For(Notes::kMost + 1) == Way::kGraphs);
  EXPECT_EQ(
      ways.ToString(),
      "all-reduces go from every peer to every other up to 48 bytes, then along CLIQUE up to 65535 bytes, then in "
      "memory that all peers map");
}

KF_TEST(Ways, OfOneHost) {
  const Ways ways{Choice::Of(StrategyName::kClique), 4, true, 4, 64 << 10};
  EXPECT_TRUE(ways.For(0) == Way::kExchange && ways.For(kMostExchanged / 3) == Way::kExchange);
  EXPECT_TRUE(ways.For(kMostExchanged / 3 + 1) == Way::kGraphs && ways.For((64 << 10) - 1) == Way::kGraphs);
  EXPECT_TRUE(ways.For(64 << 10) == Way::kDirect);
  EXPECT_EQ(ways.ToString(),
            "all-reduces go from every peer to every other up to 5461 bytes, then along CLIQUE up to 65535 bytes, "
            "then in memory that all peers map");
}

// Peers use each other's memory before it would be too much to exchange.
KF_TEST(Ways, ThatNoSizeGoesAreNotTold) {
  const Ways ways{Three(), 4, true, 4, 1 << 10};
  EXPECT_EQ(ways.ToString(),
            "all-reduces go from every peer to every other up to 1023 bytes, then in memory that all peers map");
}

// Memory of the host's serves HIERARCHY only.
KF_TEST(Ways, OfSeveralHosts) {
  const Ways ways{Three(), 4, false, 2, 64 << 10};
  EXPECT_TRUE(ways.For(64 << 10) == Way::kGraphs && ways.For(1 << 20) == Way::kHierarchy);
  EXPECT_EQ(ways.ToString(),
            "all-reduces go along CLIQUE up to 65535 bytes, then along RING up to 1048575 bytes, then along HIERARCHY, "
            "and within a host in memory that its peers map");
}

}  // namespace
}  // namespace kungfu::testing
