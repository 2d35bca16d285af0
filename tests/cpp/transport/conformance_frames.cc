// What every transport does with frames.

#include <sys/mman.h>

#include "tests/cpp/transport/transport_conformance.h"

namespace kungfu::testing {
namespace {

std::vector<Frame> FramesOfAllSizes() {
  std::vector<Frame> frames;
  for (const size_t size :
       {0,     1,     15,    16,    17,    71,     72,     73,     4096,    16383,
        16384, 16385, 65535, 65536, 65537, 262143, 262144, 300007, 1048579, Brief(5000001, 600001)}) {
    for (const size_t name_size : {size_t{0}, size_t{5}, kMaxNameSize}) {
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
    frames.push_back(NewFrame(std::to_string(i), Pattern(i % 10 == 0 ? Brief(1000000, 300000) : 97 * i, i)));
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
  header.payload_size = HugePayload::kSize;
  RunOnLoop(pair.a.loop(), [&] {
    StatusCallback* const place = pair.at_a->connection->SendOnLoop(header, huge.payload());
    ASSERT_TRUE(place != nullptr);
    *place = [&](const Status& status) {
      EXPECT_OK(status);
      done.Set(true);
    };
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

// What the system takes at once needs no callback, and no memory any more.
void SaysWhatIsTakenAtOnce(TransportFixture* fixture) {
  Pair pair(fixture);
  RunOnLoop(pair.a.loop(), [&] {
    FrameHeader header = NewFrame("at once", "").header;
    std::string payload = "soon overwritten";
    header.payload_size = payload.size();
    EXPECT_TRUE(pair.at_a->connection->SendOnLoop(header, {{payload.data(), payload.size()}}) == nullptr);
    payload.assign(payload.size(), '-');
    pair.at_a->SendOnLoop(NewFrame("in turns", Pattern(kTooMuch, 1)));
    EXPECT_TRUE(pair.at_a->connection->SendOnLoop(NewFrame("behind it", "").header, {}) != nullptr);
  });
  const std::vector<Frame> frames = pair.at_b->AwaitFrames(3);
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0].payload, "soon overwritten");
  EXPECT_EQ(frames[2].header.tag.name, "behind it");
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
    pair.at_a->connection->SendOnLoop(NewFrame("", "").header, {});
    EXPECT_EQ(order, "");
  });
  ExpectAllOk(pair.at_a->AwaitSent(4));
  RunOnLoop(pair.a.loop(), [&] { EXPECT_EQ(order, "abcd"); });
  pair.at_b->AwaitFrames(5);
}

}  // namespace

void AddFrameTests(const std::string& suite, const FixtureFactory& factory) {
  KF_TRANSPORT_CASE(suite, factory, CarriesFramesOfAllSizesInOrder);
  KF_TRANSPORT_CASE(suite, factory, CarriesEveryFieldOfAHeader);
  KF_TRANSPORT_CASE(suite, factory, CarriesBothDirectionsAtOnce);
  KF_TRANSPORT_CASE(suite, factory, CountsItsBytes);
  if (!kSanitized) KF_TRANSPORT_CASE(suite, factory, CarriesMoreThanTwoGibibytes);
  KF_TRANSPORT_CASE(suite, factory, WaitsForASlowReader);
  KF_TRANSPORT_CASE(suite, factory, SaysWhatIsTakenAtOnce);
  KF_TRANSPORT_CASE(suite, factory, CallsBackOnceAndInOrder);
}

}  // namespace kungfu::testing
