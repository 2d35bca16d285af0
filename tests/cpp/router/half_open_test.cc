// Connections that only one side takes for one.

#include <string>
#include <vector>

#include "ops/router/router.h"
#include "tests/cpp/testing.h"
#include "tests/cpp/transport/socket_fixture.h"

namespace kungfu::testing {
namespace {

// A router with its loop, which remembers what it is told.
class Listener : private RouterHandler {
 public:
  Listener(UnixFixture* fixture, const PeerId& self, const PeerId& other) {
    StatusOr<std::unique_ptr<TransportSet>> transports =
        TransportSet::Make(loop_.get(), CredentialsOf(self), "unix", fixture->directory());
    EXPECT_OK(transports.status());
    RunOnLoop(loop_.get(), [&] {
      transports_ = std::move(*transports);
      router_ = std::make_unique<Router>(loop_.get(), transports_.get(), kPatience);
      router_->BeginEpochOnLoop(0, PeerList({self, other}), this);
      EXPECT_OK(router_->ListenOnLoop());
    });
  }
  ~Listener() override {
    RunOnLoop(loop_.get(), [&] {
      router_.reset();
      transports_.reset();
    });
  }

  // What it was told as number `index`: the name of an operation that was asked for, "lost" for a peer that is; empty
  // if nothing comes.
  std::string AwaitHeard(size_t index) const {
    const bool heard = heard_.Await([&](const auto& all) { return all.size() > index; });
    return heard ? heard_.Get()[index] : "";
  }

 private:
  void Hear(const std::string& what) {
    heard_.Update([&](auto& heard) { heard.push_back(what); });
  }
  void OnFailOnLoop(const PeerId&, const OperationId&, const Status&, bool) override { Hear("failure"); }
  Status OnAskOnLoop(const PeerId&, const OperationId& id, const Signature&) override {
    Hear(id.name);
    return OkStatus();
  }
  void OnAnswerOnLoop(const PeerId&, const OperationId&, const Status&) override { Hear("answer"); }
  Status OnPeerLostOnLoop(const PeerId&, const Status& why, bool) override {
    Hear("lost");
    return why;
  }

  Guarded<std::vector<std::string>> heard_{{}};
  const std::unique_ptr<EventLoop> loop_ = NewLoop();
  std::unique_ptr<TransportSet> transports_;
  std::unique_ptr<Router> router_;
};

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
