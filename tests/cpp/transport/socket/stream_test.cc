#include "ops/transport/socket/stream.h"

#include <sys/socket.h>

#include "ops/transport/socket/socket_pipe.h"
#include "ops/transport/socket/stream_connection.h"
#include "tests/cpp/testing.h"
#include "tests/cpp/transport/endpoint.h"

namespace kungfu {
namespace {

using testing::Channel;
using testing::Frame;
using testing::NewFrame;
using testing::NewLoop;
using testing::RunOnLoop;

std::string BytesOf(Frame frame) {
  frame.header.payload_size = frame.payload.size();
  return EncodeHeader(frame.header) + frame.payload;
}

std::string Bye() {
  FrameHeader bye;
  bye.type = FrameType::kBye;
  return EncodeHeader(bye);
}

// A connection over one end of a socket pair, which has not been started; the test holds the other end.
class Harness {
 public:
  explicit Harness(LivenessCheck liveness = nullptr) : channel(loop.get()) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    other = UniqueFd(ends[0]);
    auto pipe = std::make_unique<SocketPipe>(loop.get(), "pair", UniqueFd(ends[1]),
                                             std::shared_ptr<ReadScratch>(new ReadScratch));
    stream_ = std::make_shared<Stream>(loop.get(), std::move(pipe), PeerId(), liveness);
    channel.connection = std::make_unique<StreamConnection>(stream_);
  }
  ~Harness() {
    RunOnLoop(loop.get(), [this] { channel.DestroyOnLoop(); });
    loop->Close();
    loop->Join();
  }

  void StartOnLoop() { stream_->StartOnLoop(channel.connection.get(), &channel); }
  void Say(const std::string& bytes) {
    EXPECT_EQ(send(other.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }

  const std::unique_ptr<EventLoop> loop = NewLoop();
  Channel channel;
  UniqueFd other;

 private:
  std::shared_ptr<Stream> stream_;
};

// It would go on for ever, and every send would be lost, if only its reading side could end it.
KF_TEST(Stream, EndsWhenTheOtherSideReadsNoMore) {
  Harness harness;
  EXPECT_EQ(shutdown(harness.other.get(), SHUT_RD), 0);
  RunOnLoop(harness.loop.get(), [&] {
    harness.StartOnLoop();
    harness.channel.SendOnLoop(NewFrame("lost", ""));
  });
  EXPECT_EQ(harness.channel.AwaitSent(1)[0].code(), Code::kUnavailable);
  EXPECT_EQ(harness.channel.AwaitClosed().code(), Code::kUnavailable);
}

// The system still takes what is sent; nobody is there.
KF_TEST(Stream, EndsWhenTheOtherSideIsSaidToBeGone) {
  Harness harness([](int) { return UnavailableError("nobody there"); });
  harness.Say(BytesOf(NewFrame("last words", "because")));
  RunOnLoop(harness.loop.get(), [&] { harness.StartOnLoop(); });
  const Status why = harness.channel.AwaitClosed();
  EXPECT_EQ(why.code(), Code::kUnavailable);
  EXPECT_CONTAINS(why.message(), "nobody there");
  EXPECT_TRUE(harness.channel.AwaitFrames(1)[0].payload == "because");
}

// The last words of a peer that is gone may say why.
KF_TEST(Stream, HandsOnWhatHadArrivedBeforeASendFailed) {
  for (const bool says_bye : {false, true}) {
    Harness harness;
    harness.Say(BytesOf(NewFrame("last words", "because")) + (says_bye ? Bye() : ""));
    harness.other.Reset();
    RunOnLoop(harness.loop.get(), [&] {
      harness.StartOnLoop();
      harness.channel.SendOnLoop(NewFrame("lost", ""));
    });
    const Code why = says_bye ? Code::kCancelled : Code::kUnavailable;
    EXPECT_EQ(harness.channel.AwaitClosed().code(), why);
    EXPECT_EQ(harness.channel.AwaitSent(1)[0].code(), why);
    EXPECT_TRUE(harness.channel.AwaitFrames(1)[0].payload == "because");
  }
}

KF_TEST(Stream, TakesNothingAfterAGoodbye) {
  Harness harness;
  harness.Say(Bye() + BytesOf(NewFrame("afterthought", "x")));
  RunOnLoop(harness.loop.get(), [&] { harness.StartOnLoop(); });
  EXPECT_EQ(harness.channel.AwaitClosed().code(), Code::kCancelled);
  EXPECT_EQ(harness.channel.frames(), 0u);
}

// What arrives while we wait for the other side to close is handed on.
KF_TEST(Stream, ReceivesWhileItCloses) {
  Harness harness;
  RunOnLoop(harness.loop.get(), [&] {
    harness.StartOnLoop();
    harness.channel.connection->CloseOnLoop(After(testing::kPatience));
  });
  harness.Say(BytesOf(NewFrame("late", "but welcome")));
  EXPECT_TRUE(harness.channel.AwaitFrames(1)[0].payload == "but welcome");
  harness.other.Reset();
  EXPECT_EQ(harness.channel.AwaitClosed().code(), Code::kCancelled);
}

}  // namespace
}  // namespace kungfu
