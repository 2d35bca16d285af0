// Connections that are made anew.

#include "ops/router/credit.h"
#include "tests/cpp/router/listener.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

// That it took more than questions is a sign of life; that the new connection has sent less than the old one is none.
KF_TEST(Renewed, APeerIsNotHeardByThat) {
  UnixFixture fixture;
  const PeerId self = fixture.NewPeer(), other = fixture.NewPeer();
  Listener ours(&fixture, self, other), theirs(&fixture, other, self);
  RunOnLoop(ours.loop(), [&] {
    const OperationId id{0, 0, "question"};
    for (int i = 0; i < 2; ++i) ours.router()->AskOnLoop(other, id, Signature(), kMaxEagerSize);
  });
  EXPECT_EQ(ours.AwaitHeard(1), "answer");
  RunOnLoop(ours.loop(), [&] {
    const Clock::time_point heard = ours.router()->LastHeardOnLoop(other);
    ours.router()->RenewOnLoop(PeerList({self, other}), self, 1);
    EXPECT_TRUE(ours.router()->LastHeardOnLoop(other) == heard);
  });
}

}  // namespace
}  // namespace kungfu::testing
