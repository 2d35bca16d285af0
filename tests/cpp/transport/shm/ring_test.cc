#include "ops/transport/shm/ring.h"

#include <sys/socket.h>

#include <new>
#include <string>
#include <thread>
#include <vector>

#include "tests/cpp/testing.h"
#include "tests/cpp/transport/recording_sink.h"

namespace kungfu {
namespace {

using testing::Pattern;
using testing::RecordingSink;
using testing::SinkKind;

constexpr size_t kCapacity = 4096;

class RingReceiver : public FrameReceiver {
 public:
  explicit RingReceiver(SinkKind kind) : kind_(kind) {}
  Status OnFrameOnLoop(const FrameHeader& header, Sink** sink) override {
    sink_.Begin(kind_, header.payload_size);
    if (header.payload_size > 0) *sink = &sink_;
    return OkStatus();
  }
  void OnFrameEndOnLoop(const FrameHeader& header) override {
    names.push_back(header.tag.name);
    payloads.push_back(sink_.Take());
  }

  std::vector<std::string> names, payloads;

 private:
  const SinkKind kind_;
  RecordingSink sink_;
};

// Both ends in one process, and the bell's other end.
struct Ring {
  explicit Ring(SinkKind kind = SinkKind::kWhole) : receiver(kind) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    ringing = UniqueFd(ends[0]);
    hearing = UniqueFd(ends[1]);
  }
  void Push(const std::string& name, const std::string& payload) {
    FrameHeader header;
    header.type = payload.size() > kMaxEagerSize ? FrameType::kBulk : FrameType::kData;
    header.tag.name = name;
    header.payload_size = payload.size();
    *frames.Push(header, {{payload.data(), payload.size()}}) = [this](const Status&) { ++sent; };
  }
  Status Read() {
    bool drained = false;
    return reader.Read(&parser, &drained);
  }
  int Heard() {
    char bytes[100];
    const ssize_t got = recv(hearing.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
    return got < 0 ? 0 : static_cast<int>(got);
  }

  alignas(kLine) char memory[sizeof(RingControl) + kCapacity] = {};
  UniqueFd ringing, hearing;
  Bell bell{&ringing};
  RingWriter writer{RingPlace(memory, kCapacity), &bell};
  RingReader reader{RingPlace(memory, kCapacity), &bell};
  RingControl& control = *reinterpret_cast<RingControl*>(memory);
  FrameWriter frames{kLine};
  RingReceiver receiver;
  FrameParser parser{&receiver};
  int sent = 0;
};

KF_TEST(Ring, CarriesFramesRoundAndRound) {
  std::vector<std::string> names, payloads;
  for (const size_t name_size : {size_t{0}, size_t{56}, size_t{57}, kMaxNameSize}) {
    for (const size_t size : {0, 1, 15, 16, 63, 64, 65, 1000, 4095, 4096, 4097, 100000}) {
      names.push_back(std::string(name_size, 'n'));
      payloads.push_back(Pattern(size, static_cast<uint32_t>(size)));
    }
  }
  for (const SinkKind kind : testing::kSinkKinds) {
    Ring ring(kind);
    for (size_t i = 0; i < names.size(); ++i) ring.Push(names[i], payloads[i]);
    while (!ring.frames.empty()) {
      EXPECT_OK(ring.frames.WriteTo(&ring.writer));
      for (const StatusCallback& done : ring.frames.TakeWritten()) done(OkStatus());
      EXPECT_TRUE(ring.reader.IsReady());
      EXPECT_OK(ring.Read());
      EXPECT_FALSE(ring.reader.IsReady());
      EXPECT_TRUE(ring.writer.IsReady());
    }
    EXPECT_EQ(ring.sent, static_cast<int>(names.size()));
    EXPECT_TRUE(ring.receiver.names == names);
    EXPECT_TRUE(ring.receiver.payloads == payloads);
    EXPECT_EQ(ring.reader.bytes_read(), ring.frames.bytes_written());
  }
}

// The ends see of each other what was told, and only that. ThreadSanitizer finds a count that is told too early: both
// ends know the memory by the same addresses here, which between processes they do not.
KF_TEST(Ring, TellsBetweenThreads) {
  constexpr size_t kFrames = 3000;
  std::vector<std::string> payloads;
  for (size_t i = 0; i < kFrames; ++i) payloads.push_back(Pattern(i % 500, static_cast<uint32_t>(i)));
  Ring ring;
  for (const std::string& payload : payloads) ring.Push("a", payload);
  const Deadline deadline = After(Seconds(240));
  std::thread reader([&] {
    while (ring.receiver.names.size() < kFrames && Clock::now() < deadline) {
      EXPECT_OK(ring.Read());
      std::this_thread::yield();
    }
  });
  while (!ring.frames.empty() && Clock::now() < deadline) {
    EXPECT_OK(ring.frames.WriteTo(&ring.writer));
    for (const StatusCallback& done : ring.frames.TakeWritten()) done(OkStatus());
    std::this_thread::yield();
  }
  reader.join();
  EXPECT_TRUE(ring.receiver.payloads == payloads);
}

KF_TEST(Ring, WakesWhoSleepsAndNobodyElse) {
  Ring ring;
  const std::string payload = Pattern(100000, 1);
  ring.Push("a", payload);
  EXPECT_OK(ring.frames.WriteTo(&ring.writer));
  EXPECT_OK(ring.Read());
  EXPECT_EQ(ring.Heard(), 0);

  EXPECT_TRUE(ring.reader.Sleep());
  EXPECT_OK(ring.frames.WriteTo(&ring.writer));
  EXPECT_OK(ring.frames.WriteTo(&ring.writer));
  EXPECT_TRUE(ring.writer.owes_call());
  EXPECT_EQ(ring.Heard(), 0);
  ring.writer.Call();
  ring.writer.Call();
  EXPECT_EQ(ring.Heard(), 1);
  EXPECT_FALSE(ring.reader.Sleep());
  ring.reader.Wake();

  EXPECT_FALSE(ring.writer.IsReady());
  EXPECT_TRUE(ring.writer.Sleep());
  EXPECT_OK(ring.Read());
  EXPECT_EQ(ring.Heard(), 1);
  EXPECT_FALSE(ring.writer.Sleep());
  ring.writer.Wake();
  EXPECT_OK(ring.frames.WriteTo(&ring.writer));
  EXPECT_OK(ring.Read());
  EXPECT_EQ(ring.Heard(), 0);
}

KF_TEST(Ring, CallsNobodyWhoWokeByItself) {
  Ring ring;
  ring.Push("a", "");
  EXPECT_TRUE(ring.reader.Sleep());
  EXPECT_OK(ring.frames.WriteTo(&ring.writer));
  ring.reader.Wake();
  ring.writer.Call();
  EXPECT_EQ(ring.Heard(), 0);
}

// It has looked in between, and seen what there was.
KF_TEST(Ring, CallsNobodyWhoSleepsAgain) {
  Ring ring;
  ring.Push("a", "");
  EXPECT_TRUE(ring.reader.Sleep());
  EXPECT_OK(ring.frames.WriteTo(&ring.writer));
  EXPECT_TRUE(ring.writer.owes_call());
  ring.reader.Wake();
  EXPECT_OK(ring.Read());
  EXPECT_TRUE(ring.reader.Sleep());
  EXPECT_FALSE(ring.writer.owes_call());
  ring.writer.Call();
  EXPECT_EQ(ring.Heard(), 0);
}

// A frame that is sent at once is one thing to wake up for; of a long one the first part is.
KF_TEST(Ring, TellsOfAShortRestWithWhatComesBefore) {
  constexpr size_t kLarge = 512 << 10;
  for (const size_t size : {kMaxEagerSize + kMaxNameSize, 4 * kMaxEagerSize}) {
    alignas(kLine) static char memory[sizeof(RingControl) + kLarge];
    new (memory) RingControl{};
    Ring ends;
    RingWriter writer(RingPlace(memory, kLarge), &ends.bell);
    RingReader reader(RingPlace(memory, kLarge), &ends.bell);
    EXPECT_TRUE(reader.Sleep());
    std::string bytes = Pattern(size, 1);
    const iovec piece{bytes.data(), size};
    EXPECT_EQ(*writer.Write(&piece, 1), size);
    const bool is_long = size > 2 * kMaxEagerSize;
    EXPECT_EQ(ends.Heard(), is_long ? 1 : 0);
    writer.Call();
    EXPECT_EQ(ends.Heard(), is_long ? 0 : 1);
  }
}

// A header of which only the beginning has come is no reason to stay awake.
KF_TEST(Ring, WaitsForTheRestOfAHeader) {
  Ring ring;
  ring.control.written.store(kLine);
  EXPECT_TRUE(ring.reader.IsReady());
  EXPECT_OK(ring.Read());
  EXPECT_FALSE(ring.reader.IsReady());
}

KF_TEST(Ring, BelievesNoCountThatIsImpossible) {
  for (const uint64_t written : {uint64_t{1}, uint64_t{kCapacity + kLine}, ~uint64_t{0}, uint64_t{1} << 63}) {
    Ring ring;
    ring.control.written.store(written);
    EXPECT_TRUE(ring.reader.IsReady());
    const Status status = ring.Read();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_CONTAINS(status.message(), "malformed ring");
  }
  // The writer looks at the other count when it needs room.
  for (const uint64_t read : {uint64_t{1}, uint64_t{kCapacity + kLine}, ~uint64_t{0}, uint64_t{1} << 63}) {
    Ring ring;
    const std::string all(kCapacity, 'a');
    ring.Push("a", all);
    ring.control.read.store(read);
    EXPECT_TRUE(ring.writer.IsReady());
    EXPECT_EQ(ring.frames.WriteTo(&ring.writer).code(), Code::kInvalidArgument);
  }
  // Nor one that goes back.
  Ring ring;
  const std::string half(kCapacity / 2, 'a');
  for (int i = 0; i < 2; ++i) {
    ring.Push("a", half);
    EXPECT_OK(ring.frames.WriteTo(&ring.writer));
    if (i == 0) EXPECT_OK(ring.Read());
  }
  ring.control.written.store(0);
  EXPECT_EQ(ring.Read().code(), Code::kInvalidArgument);
  ring.control.read.store(0);
  ring.Push("b", half);
  EXPECT_EQ(ring.frames.WriteTo(&ring.writer).code(), Code::kInvalidArgument);
}

KF_TEST(Ring, GivesRoomBackInPortions) {
  Ring ring;
  const int frames = kCapacity / 8 / (2 * kLine);  // headers
  for (int i = 1; i <= 2 * frames; ++i) {
    ring.Push("a", "");
    EXPECT_OK(ring.frames.WriteTo(&ring.writer));
    EXPECT_OK(ring.Read());
    EXPECT_EQ(ring.control.read.load(), static_cast<uint64_t>(i / frames * frames) * 2 * kLine);
  }
}

// A line that the other side looks at or writes to has to come from its core.
KF_TEST(Ring, TouchesTheOthersWordsOnlyWhereItMust) {
  const std::string payload = "fits";
  Ring ring;
  ring.control.reader_sleeps.store(2);
  ring.control.writer_sleeps.store(2);
  ring.reader.Wake();
  ring.writer.Wake();
  EXPECT_EQ(ring.control.reader_sleeps.load(), 2u);
  EXPECT_EQ(ring.control.writer_sleeps.load(), 2u);
  ring.control.read.store(1);  // impossible, if somebody looked
  ring.Push("a", payload);
  EXPECT_OK(ring.frames.WriteTo(&ring.writer));
}

}  // namespace
}  // namespace kungfu
