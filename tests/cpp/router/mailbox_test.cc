#include "ops/router/mailbox.h"

#include <cstring>
#include <string>
#include <vector>

#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

// A connection of which the mailbox may want something.
class FakeIncoming : public Incoming {
 public:
  explicit FakeIncoming(const std::string& peer) : peer_(*PeerId::Parse(peer)) {}

  const PeerId& peer() const override { return peer_; }
  void GrantOnLoop(const Tag& tag) override { granted.push_back(tag.part); }
  void ReleaseOnLoop(uint64_t cost) override { released += cost; }
  void DetachOnLoop() override { ++detached; }

  std::vector<uint32_t> granted;
  uint64_t released = 0;
  int detached = 0;

 private:
  const PeerId peer_;
};

class FakeUser : public MailboxUser {
 public:
  void OnMismatchOnLoop(const PeerId&, const std::string& difference) override { mismatches.push_back(difference); }
  Status LossOnLoop(const PeerId&, const Status& why) const override { return why.WithContext("from a peer"); }
  std::vector<std::string> mismatches;
};

class TextSink : public Sink {
 public:
  MutableBytes Reserve(size_t) override { return {}; }
  void Commit(size_t) override {}
  void Consume(ConstBytes view) override { text.append(view.data, view.size); }
  std::string text;
};

struct Fixture {
  Mailbox mailbox;
  FakeIncoming source{"127.0.0.1:1001"};
  FakeUser user;
  OperationId id{0, 0, "x"};
  Signature signature;
  Mailbox::Box* box = nullptr;

  void Open() { box = mailbox.Open(id, signature, &user); }

  FrameHeader Header(FrameType type, uint64_t size, uint32_t part = 0) {
    FrameHeader header;
    header.type = type;
    header.tag = {id, part};
    header.signature = signature;
    (type == FrameType::kAnnounce ? header.bulk_size : header.payload_size) = size;
    return header;
  }

  // The payload comes as the slot's sink wants it.
  void Fill(Mailbox::Slot* slot, const std::string& text) {
    Sink* sink = mailbox.SinkOf(slot);
    const MutableBytes place = sink->Reserve(text.size());
    if (place.size >= text.size()) {
      std::memcpy(place.data, text.data(), text.size());
      sink->Commit(text.size());
    } else {
      sink->Consume({text.data(), text.size()});
    }
    mailbox.Arrived(slot);
  }

  void Bring(const std::string& text, uint64_t cost, uint32_t part = 0) {
    Mailbox::Slot* slot = mailbox.DataArrives(&source, Header(FrameType::kData, text.size(), part), cost);
    if (slot) Fill(slot, text);
  }
};

KF_TEST(Mailbox, EarlyDataIsParkedAndGivenAtOnce) {
  Fixture f;
  f.Bring("hello", 100);
  EXPECT_EQ(f.source.released, 0u);
  f.Open();
  EXPECT_TRUE(f.mailbox.FindMismatch(*f.box) == nullptr);
  TextSink sink;
  EXPECT_TRUE(f.mailbox.Receive(f.box, f.source.peer(), 0, 5, &sink, nullptr));
  EXPECT_EQ(sink.text, "hello");
  EXPECT_EQ(f.source.released, 100u);
}

KF_TEST(Mailbox, AwaitedDataGoesToItsPlace) {
  Fixture f;
  f.Open();
  TextSink sink;
  int done = 0;
  EXPECT_FALSE(f.mailbox.Receive(f.box, f.source.peer(), 3, 5, &sink, [&](const Status& status) {
    EXPECT_OK(status);
    ++done;
  }));
  EXPECT_EQ(f.mailbox.Awaited(*f.box).size(), 1u);
  Mailbox::Slot* slot = f.mailbox.DataArrives(&f.source, f.Header(FrameType::kData, 5, 3), 7);
  EXPECT_TRUE(f.mailbox.SinkOf(slot) == &sink);
  EXPECT_EQ(f.mailbox.Awaited(*f.box).size(), 0u);
  EXPECT_EQ(done, 0);
  f.Fill(slot, "there");
  EXPECT_EQ(done, 1);
  EXPECT_EQ(sink.text, "there");
  EXPECT_EQ(f.source.released, 7u);
}

KF_TEST(Mailbox, AskedForWhileItArrives) {
  Fixture f;
  f.Open();
  Mailbox::Slot* slot = f.mailbox.DataArrives(&f.source, f.Header(FrameType::kData, 5), 7);
  TextSink sink;
  int done = 0;
  EXPECT_FALSE(f.mailbox.Receive(f.box, f.source.peer(), 0, 5, &sink, [&](const Status&) { ++done; }));
  f.Fill(slot, "apart");
  EXPECT_EQ(done, 1);
  EXPECT_EQ(sink.text, "apart");
}

KF_TEST(Mailbox, AnnouncementsAreGrantedWhenWanted) {
  Fixture f;
  f.mailbox.Announced(&f.source, f.Header(FrameType::kAnnounce, 5, 1), 10);
  EXPECT_TRUE(f.source.granted.empty());
  f.Open();
  TextSink early, late;
  f.mailbox.Receive(f.box, f.source.peer(), 1, 5, &early, [](const Status&) {});
  f.mailbox.Receive(f.box, f.source.peer(), 2, 5, &late, [](const Status&) {});
  f.mailbox.Announced(&f.source, f.Header(FrameType::kAnnounce, 5, 2), 10);
  EXPECT_TRUE((f.source.granted == std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(f.source.released, 20u);
  StatusOr<Mailbox::Slot*> slot = f.mailbox.BulkArrives(&f.source, f.Header(FrameType::kBulk, 5, 1));
  EXPECT_OK(slot.status());
  f.Fill(*slot, "first");
  EXPECT_EQ(early.text, "first");
}

KF_TEST(Mailbox, BulkThatWasNotGrantedBreaksTheProtocol) {
  Fixture f;
  f.Open();
  EXPECT_EQ(f.mailbox.BulkArrives(&f.source, f.Header(FrameType::kBulk, 5)).status().code(), Code::kInvalidArgument);
  TextSink sink;
  f.mailbox.Receive(f.box, f.source.peer(), 0, 5, &sink, [](const Status&) {});
  f.mailbox.Announced(&f.source, f.Header(FrameType::kAnnounce, 5), 1);
  EXPECT_FALSE(f.mailbox.BulkArrives(&f.source, f.Header(FrameType::kBulk, 6)).ok());
  FakeIncoming other("127.0.0.1:1002");
  EXPECT_FALSE(f.mailbox.BulkArrives(&other, f.Header(FrameType::kBulk, 5)).ok());
  EXPECT_TRUE(f.mailbox.BulkArrives(&f.source, f.Header(FrameType::kBulk, 5)).ok());
}

KF_TEST(Mailbox, ContradictionsAreReported) {
  Fixture f;
  f.Bring("hello", 1);
  Signature ours = f.signature;
  ours.dtype = DType::kFloat64;
  const auto mismatch = f.mailbox.FindMismatch(*f.mailbox.Open(f.id, ours, &f.user));
  ASSERT_TRUE(mismatch != nullptr);
  EXPECT_CONTAINS(mismatch->difference, "float64");
  f.Bring("again", 1, 1);
  EXPECT_EQ(f.user.mismatches.size(), 1u);
  // Equal signatures, and yet another length.
  Fixture g;
  g.Open();
  g.Bring("hello", 1);
  TextSink sink;
  EXPECT_FALSE(g.mailbox.Receive(g.box, g.source.peer(), 0, 6, &sink, [](const Status&) {}));
  EXPECT_EQ(g.user.mismatches.size(), 1u);
}

KF_TEST(Mailbox, ClosedOperationsRefuse) {
  Fixture f;
  f.Open();
  f.Bring("parked", 10);
  Mailbox::Slot* arriving = f.mailbox.DataArrives(&f.source, f.Header(FrameType::kData, 5, 1), 20);
  EXPECT_TRUE(arriving != nullptr);
  f.mailbox.Close(f.box);
  EXPECT_EQ(f.source.detached, 1);
  EXPECT_EQ(f.source.released, 30u);
  f.Bring("late", 5, 2);
  EXPECT_EQ(f.mailbox.refused(), 1u);
  EXPECT_EQ(f.source.released, 35u);
}

KF_TEST(Mailbox, ABoxRestsBetweenOperationsOfAName) {
  Fixture f;
  f.Open();
  TextSink sink;
  const auto expect = [&](const std::string& text) {
    sink.text.clear();
    EXPECT_TRUE(f.mailbox.Receive(f.box, f.source.peer(), 0, text.size(), &sink, nullptr));
    EXPECT_EQ(sink.text, text);
  };
  f.Bring("first", 1);
  expect("first");
  f.mailbox.Rest(f.box);
  f.Bring("first", 10);  // too late
  EXPECT_EQ(f.mailbox.refused(), 1u);
  EXPECT_EQ(f.source.released, 11u);

  Mailbox::Box* const resting = f.box;
  f.id.number = 1;
  f.signature.step = 7;
  f.box = f.mailbox.Reopen(resting, 1, 7);
  EXPECT_TRUE(f.box == resting);
  f.Bring("second", 100);
  expect("second");
  f.Bring("unwanted", 1000, 5);
  f.mailbox.Rest(f.box);
  EXPECT_EQ(f.source.released, 1111u);

  // Messages that come early wait in a box of their own, whatever becomes of their connection.
  f.id.number = 2;
  f.signature.step = 8;
  f.Bring("third", 10000);
  f.mailbox.SourceLost(&f.source);
  f.box = f.mailbox.Reopen(f.box, 2, 8);
  EXPECT_TRUE(f.mailbox.FindMismatch(*f.box) == nullptr);
  expect("third");
  f.signature.step = 7;
  f.Bring("of another step", 1, 1);
  EXPECT_EQ(f.user.mismatches.size(), 1u);
  f.mailbox.Close(f.box);
  f.Bring("third", 1);
  EXPECT_EQ(f.mailbox.refused(), 3u);
}

KF_TEST(Mailbox, TheSameMessageTwiceIsRefused) {
  Fixture f;
  f.Bring("hello", 1);
  f.Bring("hello", 1);
  EXPECT_EQ(f.mailbox.refused(), 1u);
  EXPECT_EQ(f.source.released, 1u);
}

KF_TEST(Mailbox, AConnectionEndsInTheMiddle) {
  Fixture f;
  f.Open();
  TextSink whole, half, none;
  std::vector<Code> codes;
  const auto done = [&](const Status& status) { codes.push_back(status.code()); };
  f.Bring("whole", 1, 0);
  f.mailbox.Receive(f.box, f.source.peer(), 1, 5, &half, done);
  f.mailbox.Receive(f.box, f.source.peer(), 2, 5, &none, done);
  f.mailbox.DataArrives(&f.source, f.Header(FrameType::kData, 5, 1), 1);
  f.mailbox.SourceLost(&f.source);
  f.Bring("again", 1, 1);  // behind what had come of it
  EXPECT_EQ(f.mailbox.refused(), 1u);
  EXPECT_EQ(codes.size(), 0u);
  f.mailbox.PeerLost(f.source.peer(), UnavailableError("gone"));
  EXPECT_TRUE((codes == std::vector<Code>{Code::kUnavailable, Code::kUnavailable}));
  // What came whole stays.
  EXPECT_TRUE(f.mailbox.Receive(f.box, f.source.peer(), 0, 5, &whole, nullptr));
  EXPECT_EQ(whole.text, "whole");
}

KF_TEST(Mailbox, OldEpochsAreRefusedAndFutureOnesParked) {
  Fixture f;
  f.mailbox.DropBefore(4);
  f.Bring("old", 9);
  EXPECT_EQ(f.mailbox.refused(), 1u);
  EXPECT_EQ(f.source.released, 9u);
  const OperationId future{5, 0, "x"};
  FrameHeader header = f.Header(FrameType::kData, 3);
  header.tag.epoch = 5;
  f.Fill(f.mailbox.DataArrives(&f.source, header, 1), "new");
  f.mailbox.DropBefore(5);
  Mailbox::Box* const box = f.mailbox.Open(future, f.signature, &f.user);
  TextSink sink;
  EXPECT_TRUE(f.mailbox.Receive(box, f.source.peer(), 0, 3, &sink, nullptr));
  EXPECT_EQ(sink.text, "new");
}

}  // namespace
}  // namespace kungfu::testing
