#include "ops/plan/peer_list.h"

#include <vector>

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

constexpr const char* kThreeHosts = "10.0.0.2:1,10.0.0.1:1,10.0.0.2:2,[fd00::1]:1,10.0.0.2:3,10.0.0.1:2";

KF_TEST(PeerList, KeepsTheOrder) {
  const StatusOr<PeerList> peers = PeerList::Parse(kThreeHosts);
  ASSERT_TRUE(peers.ok());
  EXPECT_EQ(peers->size(), 6);
  EXPECT_EQ(peers->ToString(), kThreeHosts);
  EXPECT_EQ((*peers)[3].ToString(), "[fd00::1]:1");
  for (int rank = 0; rank < peers->size(); ++rank) EXPECT_EQ(peers->RankOf((*peers)[rank]), rank);
  EXPECT_EQ(peers->RankOf(*PeerId::Parse("10.0.0.2:4")), -1);
}

KF_TEST(PeerList, KnowsWhoSharesAHost) {
  const PeerList peers = *PeerList::Parse(kThreeHosts);
  EXPECT_EQ(peers.HostCount(), 3);
  EXPECT_TRUE(peers.HostOfRanks() == (std::vector<int>{0, 1, 0, 2, 0, 1}));
  const int local_ranks[] = {0, 0, 1, 0, 2, 1};
  const int local_sizes[] = {3, 2, 3, 1, 3, 2};
  for (int rank = 0; rank < peers.size(); ++rank) {
    EXPECT_EQ(peers.LocalRank(rank), local_ranks[rank]);
    EXPECT_EQ(peers.LocalSize(rank), local_sizes[rank]);
  }
}

KF_TEST(PeerList, MayBeEmptyButIsNotParsedFromNothing) {
  EXPECT_EQ(PeerList().size(), 0);
  EXPECT_EQ(PeerList().HostCount(), 0);
  EXPECT_EQ(PeerList().ToString(), "");
  EXPECT_FALSE(PeerList::Parse("").ok());
}

KF_TEST(PeerList, RejectsWhatIsNoList) {
  for (const char* text : {",", "10.0.0.1:1,", ",10.0.0.1:1", "10.0.0.1:1,,10.0.0.1:2", "10.0.0.1:1 ,10.0.0.1:2",
                           "10.0.0.1:1;10.0.0.1:2"}) {
    const StatusOr<PeerList> peers = PeerList::Parse(text);
    ASSERT_TRUE(!peers.ok());
    EXPECT_EQ(peers.status().code(), Code::kInvalidArgument);
    EXPECT_CONTAINS(peers.status().message(), "list of peers: ");
  }
  EXPECT_CONTAINS(PeerList::Parse("10.0.0.1:1,10.0.0.2:1,10.0.0.1:1").status().message(),
                  "10.0.0.1:1 stands in it twice");
  EXPECT_FALSE(PeerList::Parse("10.0.0.1:1,[::ffff:10.0.0.1]:1").ok());
}

}  // namespace
}  // namespace kungfu
