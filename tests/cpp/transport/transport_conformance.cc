#include "tests/cpp/transport/transport_conformance.h"

#include <sys/mman.h>

#include <utility>

namespace kungfu::testing {
namespace {

// More than the system keeps for a connection whose other side does not read.
constexpr size_t kTooMuch = 24 << 20;

void ExpectFrames(const std::vector<Frame>& received, const std::vector<Frame>& sent) {
  ASSERT_EQ(received.size(), sent.size());
  for (size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(received[i].header.type, sent[i].header.type);
    EXPECT_EQ(received[i].header.tag.name, sent[i].header.tag.name);
    EXPECT_EQ(received[i].header.payload_size, sent[i].payload.size());
    EXPECT_TRUE(received[i].payload == sent[i].payload);
  }
}

void ExpectAllOk(const std::vector<Status>& statuses) {
  for (const Status& status : statuses) EXPECT_OK(status);
}

std::vector<Frame> FramesOfAllSizes() {
  std::vector<Frame> frames;
  for (const size_t size : {0,     1,     15,    16,    17,    71,     72,     73,     4096,    16383,
                            16384, 16385, 65535, 65536, 65537, 262143, 262144, 300007, 1048579, 5000001}) {
    for (const size_t name_size : {0, 5, 1024}) {
      frames.push_back(NewFrame(std::string(name_size, 'n'), Pattern(size, frames.size())));
    }
  }
  return frames;
}

void CarriesFramesOfAllSizesInOrder(TransportFixture* fixture) {
  const std::vector<Frame> frames = FramesOfAllSizes();
  for (const SinkKind kind : kSinkKinds) {
    Pair pair(fixture, nullptr, [kind](Channel* channel) { channel->sink_kind = kind; });
    for (const Frame& frame : frames) pair.at_a->Send(frame);
    ExpectFrames(pair.at_b->AwaitFrames(frames.size()), frames);
    ExpectAllOk(pair.at_a->AwaitSent(frames.size()));
  }
}

void CarriesEveryFieldOfAHeader(TransportFixture* fixture) {
  Pair pair(fixture);
  Frame frame = NewFrame("model/dense", "payload");
  frame.header.tag.epoch = 3;
  frame.header.tag.number = 1ull << 40;
  frame.header.tag.part = 9;
  frame.header.signature = {Kind::kReduce, DType::kFloat64, ReduceOp::kMax, 2, 11, 12, 13};
  frame.header.code = Code::kAborted;
  frame.header.bulk_size = 14;
  pair.at_a->Send(frame);
  const FrameHeader header = pair.at_b->AwaitFrames(1)[0].header;
  EXPECT_EQ(header.tag.epoch, 3u);
  EXPECT_EQ(header.tag.number, 1ull << 40);
  EXPECT_EQ(header.tag.part, 9u);
  EXPECT_TRUE(header.signature == frame.header.signature);
  EXPECT_EQ(header.code, Code::kAborted);
  EXPECT_EQ(header.bulk_size, 14u);
}

void CarriesBothDirectionsAtOnce(TransportFixture* fixture) {
  Pair pair(fixture);
  std::vector<Frame> frames;
  for (int i = 0; i < 300; ++i)
    frames.push_back(NewFrame(std::to_string(i), Pattern(i % 10 == 0 ? 1000000 : 97 * i, i)));
  for (const Frame& frame : frames) {
    pair.at_a->Send(frame);
    pair.at_b->Send(frame);
  }
  ExpectFrames(pair.at_b->AwaitFrames(frames.size()), frames);
  ExpectFrames(pair.at_a->AwaitFrames(frames.size()), frames);
}

void CountsItsBytes(TransportFixture* fixture) {
  Pair pair(fixture);
  const Frame frame = NewFrame("name", Pattern(100000, 1));
  pair.at_a->Send(frame);
  pair.at_b->AwaitFrames(1);
  pair.at_a->AwaitSent(1);
  const uint64_t expected = kHeaderSize + 4 + frame.payload.size();
  RunOnLoop(pair.a.loop(), [&] { EXPECT_EQ(pair.at_a->connection->bytes_sent(), expected); });
  RunOnLoop(pair.b.loop(), [&] {
    EXPECT_EQ(pair.at_b->connection->bytes_received(), expected);
    EXPECT_EQ(pair.at_b->connection->bytes_sent(), 0u);
  });
}

// Zeros, which take no memory, with a mark at each multiple of kStride.
class HugePayload {
 public:
  static constexpr size_t kSize = (size_t{1} << 31) + 7, kStride = 999983;

  HugePayload()
      : memory_(mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    EXPECT_TRUE(memory_ != MAP_FAILED);
    for (size_t at = 0; at < kSize; at += kStride) static_cast<char*>(memory_)[at] = Mark(at);
  }
  ~HugePayload() { munmap(memory_, kSize); }

  Payload payload() const { return {{static_cast<const char*>(memory_), kSize}}; }
  static char Mark(size_t at) { return static_cast<char>(1 + at / kStride % 255); }

 private:
  void* const memory_;
};

// Looks for the marks, and keeps nothing.
class HugeSink : public Sink {
 public:
  MutableBytes Reserve(size_t max) override { return {place_.data(), std::min(max, place_.size())}; }
  void Commit(size_t size) override {
    const size_t end = checked_ + size;
    for (; next_mark_ < end; next_mark_ += HugePayload::kStride) {
      EXPECT_EQ(place_[next_mark_ - checked_], HugePayload::Mark(next_mark_));
      // Beside it there is none.
      if (next_mark_ + 1 < end) EXPECT_EQ(place_[next_mark_ + 1 - checked_], 0);
    }
    checked_ = end;
  }
  void Consume(ConstBytes) override { EXPECT_TRUE(false); }
  size_t checked() const { return checked_; }

 private:
  std::vector<char> place_ = std::vector<char>(1 << 20);
  size_t checked_ = 0, next_mark_ = 0;
};

// Longer than one system call can carry.
void CarriesMoreThanTwoGibibytes(TransportFixture* fixture) {
  const HugePayload huge;
  HugeSink sink;
  Pair pair(fixture, nullptr, [&](Channel* channel) { channel->other_sink = &sink; });
  Guarded<bool> done(false);
  FrameHeader header;
  header.type = FrameType::kBulk;
  RunOnLoop(pair.a.loop(), [&] {
    pair.at_a->connection->SendOnLoop(header, huge.payload(), [&](const Status& status) {
      EXPECT_OK(status);
      done.Set(true);
    });
  });
  const std::vector<Frame> frames = pair.at_b->AwaitFrames(1);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].header.payload_size, HugePayload::kSize);
  EXPECT_EQ(sink.checked(), HugePayload::kSize);
  EXPECT_TRUE(done.Await([](bool value) { return value; }));
}

// Somebody who does not read holds up the frames to him, not the loop, and loses nothing.
void WaitsForASlowReader(TransportFixture* fixture) {
  Pair pair(fixture);
  Endpoint other(fixture);
  EXPECT_OK(other.Listen());
  pair.a.StartConnect(other.self());
  const StatusOr<Channel*> to_other = pair.a.AwaitConnected(1);
  ASSERT_TRUE(to_other.ok());

  Guarded<bool> reads(false);
  pair.b.loop()->Post([&] { EXPECT_TRUE(reads.Await([](bool value) { return value; })); });
  const Frame large = NewFrame("large", Pattern(kTooMuch, 1)), small = NewFrame("small", "x");
  pair.at_a->Send(large);
  pair.at_a->Send(small);
  (*to_other)->Send(small);
  ExpectFrames(other.AwaitAccepted()->AwaitFrames(1), {small});
  RunOnLoop(pair.a.loop(), [&] { EXPECT_LE(pair.at_a->connection->bytes_sent(), kTooMuch - 1); });
  EXPECT_TRUE(pair.at_a->AwaitSent(0).empty());
  reads.Set(true);
  ExpectFrames(pair.at_b->AwaitFrames(2), {large, small});
  ExpectAllOk(pair.at_a->AwaitSent(2));
}

// Channel checks that callbacks come once, on the loop, and never inside a send.
void CallsBackOnceAndInOrder(TransportFixture* fixture) {
  Pair pair(fixture);
  std::string order;
  RunOnLoop(pair.a.loop(), [&] {
    for (const char id : {'a', 'b', 'c'}) {
      pair.at_a->SendOnLoop(NewFrame("", Pattern(100, 1)), [&, id](const Status&) {
        order += id;
        // A send inside a callback is answered outside of it.
        if (id == 'a') pair.at_a->SendOnLoop(NewFrame("", ""), [&](const Status&) { order += 'd'; });
      });
    }
    pair.at_a->connection->SendOnLoop(NewFrame("", "").header, {}, nullptr);
    EXPECT_EQ(order, "");
  });
  ExpectAllOk(pair.at_a->AwaitSent(4));
  RunOnLoop(pair.a.loop(), [&] { EXPECT_EQ(order, "abcd"); });
  pair.at_b->AwaitFrames(5);
}

void WaitsForAPeerThatDoesNotListenYet(TransportFixture* fixture) {
  Endpoint a(fixture), b(fixture);
  a.StartConnect(b.self());  // it has been refused once when this returns
  EXPECT_OK(b.Listen());
  const StatusOr<Channel*> channel = a.AwaitConnected(0);
  EXPECT_OK(channel.status());
  const Frame frame = NewFrame("hello", "world");
  (*channel)->Send(frame);
  ExpectFrames(b.AwaitAccepted()->AwaitFrames(1), {frame});
  EXPECT_EQ(b.AwaitAccepted()->frames(), 1u);
}

void GivesUpAtTheDeadline(TransportFixture* fixture) {
  Endpoint a(fixture);
  const PeerId nobody = fixture->NewPeer();
  const Status status = a.Connect(nobody, Seconds(0.05)).status();
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
  EXPECT_CONTAINS(status.message(), nobody.ToString());
  a.StartConnect(nobody, Seconds(-1));
  EXPECT_EQ(a.AwaitConnected(1).status().code(), Code::kDeadlineExceeded);
}

void RefusesWhoDoesNotBelong(TransportFixture* fixture) {
  Endpoint b(fixture);
  EXPECT_OK(b.Listen());
  Credentials wrong_secret = CredentialsOf(fixture->NewPeer()), wrong_job = wrong_secret;
  wrong_secret.secret = "guess";
  wrong_job.job_id = "other";
  for (const Credentials& credentials : {wrong_secret, wrong_job}) {
    Endpoint a(fixture, credentials);
    const Status status = a.Connect(b.self()).status();
    EXPECT_EQ(status.code(), Code::kPermissionDenied);
    EXPECT_CONTAINS(status.message(), b.self().ToString());
  }
  EXPECT_EQ(b.accepted(), 0u);
}

void KnowsWhoIsAtTheOtherEnd(TransportFixture* fixture) {
  Pair pair(fixture);
  RunOnLoop(pair.b.loop(), [&] {
    EXPECT_EQ(pair.at_b->connection->remote().ToString(), pair.a.self().ToString());
    EXPECT_EQ(std::string(pair.at_b->connection->transport_name()), pair.b.transport->name());
  });
}

void SaysGoodbyeBehindWhatIsQueued(TransportFixture* fixture) {
  Pair pair(fixture);
  const Frame frame = NewFrame("last", Pattern(10 << 20, 1));
  pair.at_a->Send(frame);
  pair.at_a->Close();
  EXPECT_EQ(pair.at_b->AwaitClosed().code(), Code::kCancelled);
  EXPECT_EQ(pair.at_a->AwaitClosed().code(), Code::kCancelled);
  ExpectFrames(pair.at_b->AwaitFrames(1), {frame});
  ExpectAllOk(pair.at_a->AwaitSent(1));
}

// Neither loses what the other had queued before it closed.
void ClosesFromBothSidesAtOnce(TransportFixture* fixture) {
  Pair pair(fixture);
  const Frame frame = NewFrame("last", Pattern(10 << 20, 1));
  const auto send_and_close = [&](Channel* channel) {
    channel->SendOnLoop(frame);
    channel->connection->CloseOnLoop(After(kPatience));
  };
  // b begins to close before it can have read a's goodbye.
  Guarded<bool> go(false);
  pair.b.loop()->Post([&] { EXPECT_TRUE(go.Await([](bool value) { return value; })); });
  pair.b.loop()->Post([&] { send_and_close(pair.at_b); });
  RunOnLoop(pair.a.loop(), [&] { send_and_close(pair.at_a); });
  go.Set(true);
  EXPECT_EQ(pair.at_a->AwaitClosed().code(), Code::kCancelled);
  EXPECT_EQ(pair.at_b->AwaitClosed().code(), Code::kCancelled);
  ExpectFrames(pair.at_a->AwaitFrames(1), {frame});
  ExpectFrames(pair.at_b->AwaitFrames(1), {frame});
}

void RefusesToSendWhenClosed(TransportFixture* fixture) {
  Pair pair(fixture);
  pair.at_a->Close();
  pair.at_a->Send(NewFrame("late", ""));
  EXPECT_EQ(pair.at_a->AwaitSent(1)[0].code(), Code::kCancelled);
  EXPECT_EQ(pair.at_a->AwaitClosed().code(), Code::kCancelled);
  pair.at_a->Send(NewFrame("later", ""));
  EXPECT_EQ(pair.at_a->AwaitSent(2)[1].code(), Code::kCancelled);
  EXPECT_EQ(pair.at_b->AwaitClosed().code(), Code::kCancelled);
  EXPECT_EQ(pair.at_b->frames(), 0u);
  pair.at_a->Close();  // again: nothing happens
  EXPECT_EQ(pair.at_a->AwaitClosed().code(), Code::kCancelled);
}

// The other side neither reads nor closes.
void ClosesAtTheDeadline(TransportFixture* fixture) {
  Pair pair(fixture);
  Guarded<bool> reads(false);
  pair.b.loop()->Post([&] { EXPECT_TRUE(reads.Await([](bool value) { return value; })); });
  pair.at_a->Send(NewFrame("large", Pattern(kTooMuch, 1)));
  pair.at_a->Close(Seconds(0.05));
  EXPECT_EQ(pair.at_a->AwaitClosed().code(), Code::kCancelled);
  EXPECT_EQ(pair.at_a->AwaitSent(1)[0].code(), Code::kCancelled);
  reads.Set(true);
  EXPECT_EQ(pair.at_b->AwaitClosed().code(), Code::kUnavailable);
}

// A connection that ends without a goodbye is a peer that is gone, whether somebody sends to it or not.
void TellsWhenAPeerVanishes(TransportFixture* fixture) {
  for (const bool sends : {false, true}) {
    Pair pair(fixture);
    const Frame frame = NewFrame("large", Pattern(kTooMuch, 1));
    if (sends) {
      pair.at_b->Send(frame);
      pair.at_b->Send(frame);
    }
    pair.at_a->Destroy();
    EXPECT_EQ(pair.at_b->AwaitClosed().code(), Code::kUnavailable);
    if (sends) {
      EXPECT_EQ(pair.at_b->AwaitSent(2)[1].code(), Code::kUnavailable);
    }
  }
}

// The callbacks of pending sends come before OnClosed.
void EndsPendingSendsBeforeItSaysClosed(TransportFixture* fixture) {
  int sent = 0, sent_at_close = -1;
  Pair pair(fixture, [&](Channel* channel) { channel->on_closed = [&] { sent_at_close = sent; }; }, nullptr);
  RunOnLoop(pair.a.loop(), [&] {
    for (int i = 0; i < 3; ++i) {
      pair.at_a->SendOnLoop(NewFrame("", Pattern(kTooMuch, 1)), [&](const Status&) { ++sent; });
    }
  });
  pair.at_b->Destroy();
  EXPECT_EQ(pair.at_a->AwaitClosed().code(), Code::kUnavailable);
  EXPECT_EQ(sent_at_close, 3);
}

void ClosesWhatItsHandlerRefuses(TransportFixture* fixture) {
  Pair pair(fixture, nullptr,
            [](Channel* channel) { channel->on_frame = [] { return InvalidArgumentError("not like this"); }; });
  pair.at_a->Send(NewFrame("bad", Pattern(100000, 1)));
  const Status why = pair.at_b->AwaitClosed();
  EXPECT_EQ(why.code(), Code::kInvalidArgument);
  EXPECT_CONTAINS(why.message(), "not like this");
  EXPECT_EQ(pair.at_b->frames(), 0u);
  EXPECT_EQ(pair.at_a->AwaitClosed().code(), Code::kUnavailable);
}

// Channel fails the test if anything is called after a connection was destroyed.
void MayBeDestroyedInsideItsCallbacks(TransportFixture* fixture) {
  const std::function<void(Channel*)> hooks[] = {
      [](Channel* channel) {
        channel->on_frame = [channel] {
          channel->DestroyOnLoop();
          return OkStatus();
        };
      },
      [](Channel* channel) {
        channel->on_frame = [channel] {
          channel->DestroyOnLoop();
          return InvalidArgumentError("and an error too");
        };
      },
      [](Channel* channel) { channel->on_frame_end = [channel] { channel->DestroyOnLoop(); }; },
  };
  for (const auto& hook : hooks) {
    for (const size_t size : {0, 10, 1000000}) {
      Pair pair(fixture, nullptr, hook);
      const Frame frame = NewFrame("x", Pattern(size, 1));
      for (int i = 0; i < 3; ++i) pair.at_a->Send(frame);
      EXPECT_EQ(pair.at_a->AwaitClosed().code(), Code::kUnavailable);
      EXPECT_LE(pair.at_b->frames(), 1u);
    }
  }
}

void MayBeDestroyedWhenItIsClosed(TransportFixture* fixture) {
  Pair pair(fixture, [](Channel* channel) { channel->on_closed = [channel] { channel->DestroyOnLoop(); }; }, nullptr);
  pair.at_a->Close();
  EXPECT_EQ(pair.at_a->AwaitClosed().code(), Code::kCancelled);
}

void MayBeDestroyedInsideTheCallbackOfASend(TransportFixture* fixture) {
  for (const bool fails : {false, true}) {
    Pair pair(fixture);
    Guarded<bool> called(false);
    const Frame frame = NewFrame("x", Pattern(fails ? kTooMuch : 10, 1));
    RunOnLoop(pair.a.loop(), [&] {
      for (int i = 0; i < 3; ++i) {
        pair.at_a->SendOnLoop(frame, [&](const Status&) {
          pair.at_a->DestroyOnLoop();
          called.Set(true);
        });
      }
    });
    if (fails) pair.at_b->Destroy();
    EXPECT_TRUE(called.Await([](bool value) { return value; }));
    if (!fails) EXPECT_EQ(pair.at_b->AwaitClosed().code(), Code::kUnavailable);
  }
}

// A sink that ends its connection.
class DestroyingSink : public Sink {
 public:
  DestroyingSink(Channel* channel, SinkKind kind) : channel_(channel), kind_(kind) {}
  MutableBytes Reserve(size_t max) override {
    return kind_ == SinkKind::kLent ? MutableBytes() : MutableBytes{place_, std::min(max, sizeof(place_))};
  }
  void Commit(size_t size) override { channel_->DestroyOnLoop(); }
  void Consume(ConstBytes view) override { channel_->DestroyOnLoop(); }

 private:
  Channel* const channel_;
  const SinkKind kind_;
  char place_[100];
};

void MayBeDestroyedInsideASink(TransportFixture* fixture) {
  for (const SinkKind kind : {SinkKind::kWhole, SinkKind::kLent}) {
    std::unique_ptr<DestroyingSink> sink;
    Pair pair(fixture, nullptr, [&](Channel* channel) {
      sink = std::make_unique<DestroyingSink>(channel, kind);
      channel->other_sink = sink.get();
    });
    pair.at_a->Send(NewFrame("x", Pattern(100000, 1)));
    EXPECT_EQ(pair.at_a->AwaitClosed().code(), Code::kUnavailable);
    EXPECT_EQ(pair.at_b->frames(), 0u);
  }
}

void MayBeDestroyedOnceItIsHandedOver(TransportFixture* fixture) {
  {
    Pair pair(fixture, nullptr, [](Channel* channel) { channel->DestroyOnLoop(); });
    EXPECT_EQ(pair.at_a->AwaitClosed().code(), Code::kUnavailable);
  }
  {
    Pair pair(fixture, [](Channel* channel) { channel->DestroyOnLoop(); }, nullptr);
    EXPECT_EQ(pair.at_b->AwaitClosed().code(), Code::kUnavailable);
  }
}

// Inside the very callback that hands it over a connection may send and close.
void MaySendAndCloseOnceItIsHandedOver(TransportFixture* fixture) {
  const Frame frame = NewFrame("first", Pattern(8 << 20, 1));
  Pair pair(fixture, nullptr, [&](Channel* channel) {
    channel->SendOnLoop(frame);
    channel->connection->CloseOnLoop(After(kPatience));
  });
  EXPECT_EQ(pair.at_a->AwaitClosed().code(), Code::kCancelled);
  EXPECT_EQ(pair.at_b->AwaitClosed().code(), Code::kCancelled);
  ExpectFrames(pair.at_a->AwaitFrames(1), {frame});
}

void MayLoseItsTransport(TransportFixture* fixture) {
  Endpoint a(fixture), b(fixture);
  b.prepare = [&](Channel*) {
    const std::unique_ptr<Transport> doomed = std::move(b.transport);
    doomed->CloseOnLoop();
  };
  a.prepare = [&](Channel*) { a.transport.reset(); };
  EXPECT_OK(b.Listen());
  const StatusOr<Channel*> channel = a.Connect(b.self());
  ASSERT_TRUE(channel.ok());
  const Frame frame = NewFrame("still", "there");
  (*channel)->Send(frame);
  ExpectFrames(b.AwaitAccepted()->AwaitFrames(1), {frame});
}

void SaysThatItsAddressIsInUse(TransportFixture* fixture) {
  Endpoint first(fixture);
  EXPECT_OK(first.Listen());
  Endpoint second(fixture, first.self());
  const Status status = second.Listen();
  EXPECT_FALSE(status.ok());
  EXPECT_CONTAINS(status.message(), first.self().ToString());
  EXPECT_CONTAINS(status.message(), "choose other ports");
  // The attempt has not disturbed the first one.
  Endpoint a(fixture);
  EXPECT_OK(a.Connect(first.self()).status());
}

void FreesItsAddressWhenItIsClosed(TransportFixture* fixture) {
  const PeerId self = fixture->NewPeer();
  for (int i = 0; i < 3; ++i) {
    Endpoint b(fixture, self), a(fixture);
    EXPECT_OK(b.Listen());
    EXPECT_OK(a.Connect(self).status());
    EXPECT_FALSE(b.Listen().ok());
    b.CloseTransport();
    Endpoint next(fixture, self);
    EXPECT_OK(next.Listen());
  }
}

void CancelsConnectsWhenItIsClosed(TransportFixture* fixture) {
  Endpoint a(fixture);
  const PeerId nobody = fixture->NewPeer();
  a.StartConnect(nobody);
  a.StartConnect(nobody);
  a.CloseTransport();
  for (const size_t i : {0, 1}) EXPECT_EQ(a.AwaitConnected(i).status().code(), Code::kCancelled);
  a.StartConnect(nobody);
  EXPECT_EQ(a.AwaitConnected(2).status().code(), Code::kCancelled);
}

void LetsManyPeersInAtOnce(TransportFixture* fixture) {
  constexpr size_t kPeers = 100;
  Endpoint b(fixture);
  std::vector<PeerId> peers;
  for (size_t i = 0; i < kPeers; ++i) peers.push_back(fixture->NewPeer());
  std::vector<std::unique_ptr<Transport>> transports;
  EventLoop loop;
  Guarded<int> connected(0);
  std::vector<std::unique_ptr<Connection>> connections;
  Channel channel(&loop);
  RunOnLoop(&loop, [&] {
    for (const PeerId& peer : peers) {
      transports.push_back(fixture->NewTransport(&loop, CredentialsOf(peer)));
      transports.back()->ConnectOnLoop(b.self(), After(kPatience),
                                       [&](StatusOr<std::unique_ptr<Connection>> result) -> ConnectionHandler* {
                                         EXPECT_OK(result.status());
                                         if (!result.ok()) return nullptr;
                                         connections.push_back(std::move(*result));
                                         connected.Update([](int& count) { ++count; });
                                         return &channel;
                                       });
    }
  });
  EXPECT_OK(b.Listen());
  EXPECT_TRUE(connected.Await([](int count) { return count == kPeers; }));
  b.AwaitAccepted(kPeers - 1);
  RunOnLoop(&loop, [&] {
    connections.clear();
    transports.clear();
  });
}

}  // namespace

bool AddConformanceTests(const std::string& suite, const FixtureFactory& factory) {
#define KF_CASE(name) Register((suite + "." #name).c_str(), [factory] { name(factory().get()); })
  KF_CASE(CarriesFramesOfAllSizesInOrder);
  KF_CASE(CarriesEveryFieldOfAHeader);
  KF_CASE(CarriesBothDirectionsAtOnce);
  KF_CASE(CountsItsBytes);
  KF_CASE(CarriesMoreThanTwoGibibytes);
  KF_CASE(WaitsForASlowReader);
  KF_CASE(CallsBackOnceAndInOrder);
  KF_CASE(WaitsForAPeerThatDoesNotListenYet);
  KF_CASE(GivesUpAtTheDeadline);
  KF_CASE(RefusesWhoDoesNotBelong);
  KF_CASE(KnowsWhoIsAtTheOtherEnd);
  KF_CASE(SaysGoodbyeBehindWhatIsQueued);
  KF_CASE(ClosesFromBothSidesAtOnce);
  KF_CASE(RefusesToSendWhenClosed);
  KF_CASE(ClosesAtTheDeadline);
  KF_CASE(TellsWhenAPeerVanishes);
  KF_CASE(EndsPendingSendsBeforeItSaysClosed);
  KF_CASE(ClosesWhatItsHandlerRefuses);
  KF_CASE(MayBeDestroyedInsideItsCallbacks);
  KF_CASE(MayBeDestroyedWhenItIsClosed);
  KF_CASE(MayBeDestroyedInsideTheCallbackOfASend);
  KF_CASE(MayBeDestroyedInsideASink);
  KF_CASE(MayBeDestroyedOnceItIsHandedOver);
  KF_CASE(MaySendAndCloseOnceItIsHandedOver);
  KF_CASE(MayLoseItsTransport);
  KF_CASE(SaysThatItsAddressIsInUse);
  KF_CASE(FreesItsAddressWhenItIsClosed);
  KF_CASE(CancelsConnectsWhenItIsClosed);
  KF_CASE(LetsManyPeersInAtOnce);
#undef KF_CASE
  return true;
}

}  // namespace kungfu::testing
