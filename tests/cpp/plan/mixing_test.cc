#include "ops/plan/mixing.h"

#include <vector>

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

using Neighbors = std::vector<Mixing::Neighbor>;

Mixing Taking(Neighbors sources) { return Mixing::Of(0.5, std::move(sources), {}); }
Mixing Giving(Neighbors targets) { return Mixing::Of(0.5, {}, std::move(targets)); }

KF_TEST(Mixing, IsInTheOrderOfRanks) {
  const Mixing mixing = Mixing::Of(0.25, {{3, 0.5}, {1, 0.25}}, {{2, 1}, {0, 4}});
  EXPECT_EQ(mixing.self, 0.25);
  ASSERT_TRUE(mixing.sources.size() == 2 && mixing.targets.size() == 2);
  EXPECT_EQ(mixing.sources[0].rank, 1);
  EXPECT_EQ(mixing.sources[0].weight, 0.25);
  EXPECT_EQ(mixing.sources[1].rank, 3);
  EXPECT_EQ(mixing.targets[0].rank, 0);
  EXPECT_EQ(mixing.targets[0].weight, 4);
}

KF_TEST(Mixing, OfOthersOnce) {
  EXPECT_OK(CheckMixing(Taking({{0, 1}, {2, 1}}), 3, 1));
  EXPECT_OK(CheckMixing(Giving({}), 1, 0));
  for (const bool takes : {true, false}) {
    const auto refusal = [&](Neighbors neighbors) {
      const Mixing mixing = takes ? Taking(std::move(neighbors)) : Giving(std::move(neighbors));
      const Status status = CheckMixing(mixing, 3, 1);
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_CONTAINS(status.message(), takes ? "source" : "target");
      return status.message();
    };
    EXPECT_CONTAINS(refusal({{3, 1}}), "3 is not a rank of 3 peers");
    EXPECT_CONTAINS(refusal({{-1, 1}}), "-1 is not a rank");
    EXPECT_CONTAINS(refusal({{1, 1}}), "1 is this rank itself");
    EXPECT_CONTAINS(refusal({{2, 1}, {0, 1}, {2, 1}}), "2 is there twice");
  }
}

KF_TEST(Mixing, NeighborsOnEitherSide) {
  const Mixing mixing = Mixing::Of(0.5, {{2, 0.5}}, {{4, 1}});
  EXPECT_TRUE(AreNeighbors(mixing, 2));
  EXPECT_TRUE(AreNeighbors(mixing, 4));
  EXPECT_FALSE(AreNeighbors(mixing, 3));
}

}  // namespace
}  // namespace kungfu
