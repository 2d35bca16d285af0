// How the connections of every transport end.

#include "tests/cpp/transport/transport_conformance.h"

namespace kungfu::testing {
namespace {

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
    RunOnLoop(pair.a.loop(), [&] {  // which reads nothing meanwhile
      RunOnLoop(pair.b.loop(), [&] {
        for (int i = 0; sends && i < 2; ++i) pair.at_b->SendOnLoop(frame);
      });
      pair.at_a->DestroyOnLoop();
    });
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

}  // namespace

void AddEndTests(const std::string& suite, const FixtureFactory& factory) {
  KF_TRANSPORT_CASE(suite, factory, SaysGoodbyeBehindWhatIsQueued);
  KF_TRANSPORT_CASE(suite, factory, ClosesFromBothSidesAtOnce);
  KF_TRANSPORT_CASE(suite, factory, RefusesToSendWhenClosed);
  KF_TRANSPORT_CASE(suite, factory, ClosesAtTheDeadline);
  KF_TRANSPORT_CASE(suite, factory, TellsWhenAPeerVanishes);
  KF_TRANSPORT_CASE(suite, factory, EndsPendingSendsBeforeItSaysClosed);
  KF_TRANSPORT_CASE(suite, factory, ClosesWhatItsHandlerRefuses);
  KF_TRANSPORT_CASE(suite, factory, MayBeDestroyedInsideItsCallbacks);
  KF_TRANSPORT_CASE(suite, factory, MayBeDestroyedWhenItIsClosed);
  KF_TRANSPORT_CASE(suite, factory, MayBeDestroyedInsideTheCallbackOfASend);
  KF_TRANSPORT_CASE(suite, factory, MayBeDestroyedInsideASink);
  KF_TRANSPORT_CASE(suite, factory, MayBeDestroyedOnceItIsHandedOver);
  KF_TRANSPORT_CASE(suite, factory, MaySendAndCloseOnceItIsHandedOver);
}

}  // namespace kungfu::testing
