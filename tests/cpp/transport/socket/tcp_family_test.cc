#include "ops/transport/socket/tcp_family.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "tests/cpp/testing.h"
#include "tests/cpp/transport/socket_fixture.h"

namespace kungfu {
namespace {

using testing::TcpFixture;

constexpr int kPatienceMs = static_cast<int>(1000 * testing::kPatience.count());

int Option(const UniqueFd& fd, int level, int option) {
  int value = -1;
  socklen_t size = sizeof(value);
  EXPECT_EQ(getsockopt(fd.get(), level, option, &value, &size), 0);
  return value;
}

// A host that vanishes must be noticed, with data in flight and without.
KF_TEST(TcpFamily, SetsTheOptionsOfBothEnds) {
  for (const char* host : {"127.0.0.1", "::1"}) {
    TcpFixture fixture(host);
    TcpFamily family;
    const PeerId self = fixture.NewPeer();
    const StatusOr<UniqueFd> listening = family.Listen(self);
    EXPECT_OK(listening.status());
    const StatusOr<UniqueFd> connecting = family.Connect(self);
    EXPECT_OK(connecting.status());
    pollfd came{listening->get(), POLLIN, 0};
    EXPECT_EQ(poll(&came, 1, kPatienceMs), 1);
    const UniqueFd accepted(accept(listening->get(), nullptr, nullptr));
    family.Prepare(accepted.get());
    for (const UniqueFd* fd : {&*connecting, &accepted}) {
      EXPECT_NE(Option(*fd, IPPROTO_TCP, TCP_NODELAY), 0);
      EXPECT_NE(Option(*fd, SOL_SOCKET, SO_KEEPALIVE), 0);
      EXPECT_EQ(Option(*fd, IPPROTO_TCP, TCP_KEEPIDLE), 1);
      EXPECT_EQ(Option(*fd, IPPROTO_TCP, TCP_KEEPINTVL), 1);
      EXPECT_EQ(Option(*fd, IPPROTO_TCP, TCP_KEEPCNT), 3);
      // It would end the connection to a process that is stopped.
      EXPECT_EQ(Option(*fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
      EXPECT_OK(TcpFamily::CheckAcknowledged(fd->get()));
    }
  }
}

KF_TEST(TcpFamily, TellsAHostThatIsGoneFromAProcessThatIsStopped) {
  // Nothing is asked; a packet or two were lost.
  EXPECT_FALSE(IsCutOff({0, 0, 0}));
  EXPECT_FALSE(IsCutOff({0, 0, 3600000}));
  EXPECT_FALSE(IsCutOff({2, 0, 600}));
  EXPECT_FALSE(IsCutOff({0, 1, 60000}));
  // The window has been closed for a minute: probes are answered, at long intervals.
  EXPECT_FALSE(IsCutOff({0, 0, 60000}));
  // Data, or probes, into the void.
  EXPECT_TRUE(IsCutOff({4, 0, 5000}));
  EXPECT_TRUE(IsCutOff({0, 3, 5000}));
}

KF_TEST(TcpFamily, SaysThatAnAddressIsNotOurs) {
  TcpFamily family;
  const StatusOr<PeerId> elsewhere = PeerId::Parse("203.0.113.7:10000");  // reserved for documentation
  const Status status = family.Listen(*elsewhere).status();
  EXPECT_FALSE(status.ok());
  EXPECT_CONTAINS(status.message(), "203.0.113.7:10000");
  EXPECT_CONTAINS(status.message(), "no interface");
}

KF_TEST(TcpFamily, ListensOnItsAddressOnly) {
  TcpFixture fixture("127.0.0.1"), other_host("127.0.0.2");
  const PeerId self = fixture.NewPeer();
  TcpFamily family;
  const StatusOr<UniqueFd> listening = family.Listen(self);
  EXPECT_OK(listening.status());
  EXPECT_GE(fixture.ConnectRaw(self).get(), 0);
  PeerId other = self;
  other.host = other_host.NewPeer().host;
  EXPECT_EQ(fixture.ConnectRaw(other).get(), -1);
}

}  // namespace
}  // namespace kungfu
