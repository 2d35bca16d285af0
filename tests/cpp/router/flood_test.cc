// A peer that knows the secret and breaks the rules: it costs its connection, and neither memory nor anybody else.

#include <string>

#include "ops/router/credit.h"
#include "ops/router/in_link.h"
#include "tests/cpp/testing.h"
#include "tests/cpp/transport/harness.h"

namespace kungfu::testing {
namespace {

class FakeConnection : public Connection {
 public:
  StatusCallback* SendOnLoop(const FrameHeader& header, Payload) override {
    sent.push_back(header.type);
    return nullptr;
  }
  void CloseOnLoop(Deadline) override {}
  void BreakOnLoop(const Status&) override {}
  const PeerId& remote() const override { return remote_; }
  const char* transport_name() const override { return "fake"; }
  uint64_t bytes_sent() const override { return 0; }
  uint64_t bytes_received() const override { return 0; }

  std::vector<FrameType> sent;

 private:
  const PeerId remote_ = *PeerId::Parse("127.0.0.1:1001");
};

class NoOwner : public InLinkOwner {
 public:
  void OnFailFrameOnLoop(const PeerId&, const Tag&, const Status&) override {}
  Status OnAskOnLoop(const PeerId&, const Tag&, const Signature&) override { return OkStatus(); }
  void OnPullOnLoop(const PeerId&, const FrameHeader&) override {}
  void OnInLinkClosedOnLoop(InLink*, const Status&) override {}
};

FrameHeader Header(FrameType type, int number, uint64_t size) {
  FrameHeader header;
  header.type = type;
  header.tag.name = "flood" + std::to_string(number);
  (type == FrameType::kAnnounce ? header.bulk_size : header.payload_size) = size;
  return header;
}

// Sends until it is refused; returns the cost of what was accepted.
uint64_t FloodOnLoop(EventLoop* loop, FrameType type, uint64_t size) {
  Mailbox mailbox;
  NoOwner owner;
  InLink link(loop, std::make_unique<FakeConnection>(), &mailbox, &owner);
  uint64_t cost = 0;
  for (int i = 0;; ++i) {
    const FrameHeader header = Header(type, i, size);
    Sink* sink = nullptr;
    const Status status = link.OnFrameOnLoop(link.connection(), header, &sink);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_CONTAINS(status.message(), "credit");
      return cost;
    }
    if (header.payload_size > 0) {
      uint64_t left = header.payload_size;
      while (left > 0) {
        const size_t part = static_cast<Sink*>(sink)->Reserve(left).size;
        sink->Commit(part);
        left -= part;
      }
    }
    link.OnFrameEndOnLoop(link.connection(), header);
    cost += ParkCost(header.tag.name.size(), header.payload_size);
  }
}

uint64_t Flood(FrameType type, uint64_t size) {
  const std::unique_ptr<EventLoop> loop = NewLoop();
  uint64_t cost = 0;
  RunOnLoop(loop.get(), [&] { cost = FloodOnLoop(loop.get(), type, size); });
  return cost;
}

KF_TEST(Flood, DataBeyondTheCreditEndsTheConnection) { EXPECT_LE(Flood(FrameType::kData, 60000), kParkLimit); }

KF_TEST(Flood, EmptyMessagesCountToo) { EXPECT_LE(Flood(FrameType::kData, 0), kParkLimit); }

KF_TEST(Flood, AnnouncementsCountToo) { EXPECT_LE(Flood(FrameType::kAnnounce, 1 << 30), kParkLimit); }

KF_TEST(Flood, FramesInTheWrongDirection) {
  const std::unique_ptr<EventLoop> loop = NewLoop();
  RunOnLoop(loop.get(), [&] {
    Mailbox mailbox;
    NoOwner owner;
    InLink link(loop.get(), std::make_unique<FakeConnection>(), &mailbox, &owner);
    for (const FrameType type : {FrameType::kGrant, FrameType::kCredit, FrameType::kAnswer}) {
      Sink* sink = nullptr;
      EXPECT_EQ(link.OnFrameOnLoop(link.connection(), Header(type, 0, 0), &sink).code(), Code::kInvalidArgument);
    }
  });
}

}  // namespace
}  // namespace kungfu::testing
