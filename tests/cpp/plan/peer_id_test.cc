#include "ops/plan/peer_id.h"

#include <string>
#include <unordered_set>

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

KF_TEST(HostAddress, ParsesAndWrites) {
  for (const char* text : {"127.0.0.1", "0.0.0.0", "255.255.255.255", "::1", "::", "fd00::a:1"}) {
    const StatusOr<HostAddress> host = HostAddress::Parse(text);
    ASSERT_TRUE(host.ok());
    EXPECT_EQ(host->ToString(), text);
  }
  EXPECT_EQ(HostAddress::Parse("[::1]")->ToString(), "::1");
}

KF_TEST(HostAddress, MappedV4IsTheSameHost) {
  EXPECT_TRUE(*HostAddress::Parse("::ffff:10.0.0.1") == *HostAddress::Parse("10.0.0.1"));
  EXPECT_TRUE(HostAddress::Parse("::ffff:10.0.0.1")->is_v4());
  EXPECT_FALSE(HostAddress::Parse("::10.0.0.1")->is_v4());
  EXPECT_FALSE(HostAddress::Parse("::1")->is_v4());
}

KF_TEST(HostAddress, RejectsWhatIsNoAddress) {
  for (const char* text : {"", "localhost", "10.0.0", "10.0.0.256", "10.0.0.01", " 10.0.0.1", "10.0.0.1 ", "[10.0.0.1]",
                           "[::1", "::1]", "[]", "fe80::1%eth0", "1::2::3"}) {
    const StatusOr<HostAddress> host = HostAddress::Parse(text);
    ASSERT_TRUE(!host.ok());
    EXPECT_EQ(host.status().code(), Code::kInvalidArgument);
    EXPECT_CONTAINS(host.status().message(), "'" + std::string(text) + "'");
  }
}

KF_TEST(PeerId, ParsesAndWrites) {
  for (const char* text : {"127.0.0.1:10000", "[::1]:10000", "10.0.0.3:1", "[fd00::1]:65535"}) {
    const StatusOr<PeerId> peer = PeerId::Parse(text);
    ASSERT_TRUE(peer.ok());
    EXPECT_EQ(peer->ToString(), text);
  }
  EXPECT_EQ(PeerId::Parse("[::1]:7")->port, 7);
}

KF_TEST(PeerId, RejectsWhatIsNoPeer) {
  for (const char* text : {"", ":", "127.0.0.1", "127.0.0.1:", ":80", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:-1",
                           "127.0.0.1:+1", "127.0.0.1: 1", "127.0.0.1:1 ", "127.0.0.1:1x", "::1:10000", "[::1]10000",
                           "[::1]", "localhost:1", "127.0.0.1:1:2"}) {
    const StatusOr<PeerId> peer = PeerId::Parse(text);
    ASSERT_TRUE(!peer.ok());
    EXPECT_EQ(peer.status().code(), Code::kInvalidArgument);
  }
  EXPECT_CONTAINS(PeerId::Parse("::1:10000").status().message(), "brackets");
  EXPECT_CONTAINS(PeerId::Parse("127.0.0.1:0").status().message(), "'127.0.0.1:0'");
}

KF_TEST(PeerId, OrdersByHostThenPort) {
  const PeerId a = *PeerId::Parse("10.0.0.1:2"), b = *PeerId::Parse("10.0.0.1:3"), c = *PeerId::Parse("10.0.0.2:1");
  EXPECT_TRUE(a < b && b < c && a < c);
  EXPECT_FALSE(b < a || c < b || a < a);
  EXPECT_TRUE(a == a && a != b && b != c);
}

KF_TEST(PeerId, HashesNeighboursApart) {
  std::unordered_set<size_t> hashes;
  for (int host = 0; host < 32; ++host) {
    for (int port = 0; port < 32; ++port) {
      const std::string text = "10.0.0." + std::to_string(host) + ":" + std::to_string(10000 + port);
      hashes.insert(PeerIdHash()(*PeerId::Parse(text)));
    }
  }
  EXPECT_EQ(hashes.size(), 32u * 32u);
}

}  // namespace
}  // namespace kungfu
