// Connections that only one side takes for one.

#include <string>

#include "tests/cpp/router/listener.h"
#include "tests/cpp/testing.h"
#include "tests/cpp/transport/socket_fixture.h"

namespace kungfu::testing {
namespace {

Frame Ask(const std::string& name) {
  Frame frame = NewFrame(name, "");
  frame.header.type = FrameType::kAsk;
  return frame;
}

// A client may lose patience between its proof and the verdict. It comes again, and is no peer that was lost.
KF_TEST(HalfOpen, AClientThatLeavesBeforeTheVerdictWasNoLink) {
  UnixFixture fixture;
  const PeerId self = fixture.NewPeer(), other = fixture.NewPeer();
  Listener listener(&fixture, self, other);
  Credentials credentials = CredentialsOf(other);
  credentials.place = MeetingPlace::kUnix;
  {
    const UniqueFd impatient = fixture.ConnectRaw(self);
    const std::unique_ptr<Handshake> handshake = Handshake::Client(credentials, self);
    WriteAll(impatient.get(), handshake->Opening());
    std::string proof;
    EXPECT_OK(handshake->Advance(ReadExactly(impatient.get(), handshake->Wants()).data(), &proof));
    WriteAll(impatient.get(), proof);
    ReadExactly(impatient.get(), 4);  // it is there, and too late
  }
  Endpoint patient(&fixture, credentials);
  const StatusOr<Channel*> channel = patient.Connect(self);
  ASSERT_TRUE(channel.ok());
  (*channel)->Send(Ask("second attempt"));
  EXPECT_EQ(listener.AwaitHeard(0), "second attempt");
  // A link that has brought something, and ends, is one.
  (*channel)->Destroy();
  EXPECT_EQ(listener.AwaitHeard(1), "lost");
}

}  // namespace
}  // namespace kungfu::testing
