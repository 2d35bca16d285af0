// Which hosts' peers come to use each other's memory.

#include "ops/collective/host_meeting.h"

#include <vector>

#include "tests/cpp/plan/layouts.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

PeerList OnTwoHosts(int first, int second) {
  std::vector<int> host_of_rank(first, 0);
  host_of_rank.resize(first + second, 1);
  return PeersOnHosts(host_of_rank);
}

// Both hosts have more than can meet, or one peer.
KF_TEST(HostMeeting, NobodyMeets) {
  for (const int many : {1, DirectGroup::kMostPeers + 1}) {
    for (const int others : {1, DirectGroup::kMostPeers + 1}) {
      const PeerList peers = OnTwoHosts(many, others);
      for (int rank = 0; rank < peers.size(); ++rank) EXPECT_FALSE(HostMeeting::HasPlace(peers, rank));
      EXPECT_FALSE(HostMeeting::SomeMeet(peers, 0, false));
    }
  }
}

KF_TEST(HostMeeting, WhoCannotMeetTrustsTheOthers) {
  for (const int first : {1, DirectGroup::kMostPeers + 1}) {
    for (const int second : {2, DirectGroup::kMostPeers}) {
      EXPECT_TRUE(HostMeeting::SomeMeet(OnTwoHosts(first, second), 0, false));
    }
  }
}

KF_TEST(HostMeeting, WhoCanKnowsByItself) {
  for (const int second : {1, 2, DirectGroup::kMostPeers + 1}) {
    for (const bool met : {false, true}) EXPECT_EQ(HostMeeting::SomeMeet(OnTwoHosts(2, second), 0, met), met);
  }
}

}  // namespace
}  // namespace kungfu::testing
