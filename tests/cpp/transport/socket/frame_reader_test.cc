#include "ops/transport/socket/frame_reader.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "ops/base/unique_fd.h"
#include "tests/cpp/testing.h"
#include "tests/cpp/transport/recording_sink.h"

namespace kungfu {
namespace {

using testing::Pattern;
using testing::RecordingSink;
using testing::SinkKind;

struct SentFrame {
  FrameHeader header;
  std::string payload;
};

SentFrame NewFrame(size_t name_size, size_t payload_size) {
  SentFrame frame;
  frame.header.type = payload_size > kMaxEagerSize ? FrameType::kBulk : FrameType::kData;
  frame.header.tag.name = std::string(name_size, 'n');
  frame.header.tag.number = name_size;
  frame.header.payload_size = payload_size;
  frame.payload = Pattern(payload_size, static_cast<uint32_t>(payload_size + name_size));
  return frame;
}

class FrameRecorder : public FrameReceiver {
 public:
  explicit FrameRecorder(SinkKind kind) : kind_(kind) {}

  Status OnFrameOnLoop(const FrameHeader& header, Sink** sink) override {
    sink_.Begin(kind_, header.payload_size);
    if (header.payload_size > 0) *sink = &sink_;
    return refuse ? InvalidArgumentError("refused") : OkStatus();
  }
  void OnFrameEndOnLoop(const FrameHeader& header) override {
    EXPECT_TRUE(sink_.full());
    frames.push_back({header, sink_.Take()});
  }

  std::vector<SentFrame> frames;
  bool refuse = false;

 private:
  const SinkKind kind_;
  RecordingSink sink_;
};

struct Socket {
  Socket() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    reading = UniqueFd(ends[0]);
    writing = UniqueFd(ends[1]);
    EXPECT_EQ(fcntl(reading.get(), F_SETFL, O_NONBLOCK), 0);
  }
  void Write(const char* data, size_t size) const {
    EXPECT_EQ(write(writing.get(), data, size), static_cast<ssize_t>(size));
  }

  UniqueFd reading, writing;
};

std::shared_ptr<ReadScratch> NewScratch() { return std::shared_ptr<ReadScratch>(new ReadScratch); }

// Every frame at every place in the stream, however it is cut on its way.
KF_TEST(FrameReader, PutsFramesTogetherHoweverTheyArrive) {
  std::vector<SentFrame> sent;
  std::string stream;
  for (const size_t name_size : {size_t{0}, size_t{1}, size_t{13}, kMaxNameSize}) {
    for (const size_t size : {0, 1, 15, 16, 17, 100, 4096, 16384, 20001, 65536, testing::Brief(300007, 66007)}) {
      sent.push_back(NewFrame(name_size, size));
      stream += EncodeHeader(sent.back().header) + sent.back().payload;
    }
  }
  for (const SinkKind kind : testing::kSinkKinds) {
    for (const size_t cut : {7, 16, 71, 1000, 16383, 16385, 100000}) {
      const Socket socket;
      FrameRecorder receiver(kind);
      FrameParser frames(&receiver);
      FrameReader reader(NewScratch());
      bool ended = false;
      for (size_t at = 0; at < stream.size(); at += cut) {
        socket.Write(&stream[at], std::min(cut, stream.size() - at));
        EXPECT_OK(reader.ReadFrom(socket.reading.get(), &frames, &ended));
      }
      EXPECT_FALSE(ended);
      EXPECT_EQ(reader.bytes_read(), stream.size());
      ASSERT_EQ(receiver.frames.size(), sent.size());
      for (size_t i = 0; i < sent.size(); ++i) {
        EXPECT_EQ(receiver.frames[i].header.tag.name, sent[i].header.tag.name);
        EXPECT_TRUE(receiver.frames[i].payload == sent[i].payload);
      }
    }
  }
}

KF_TEST(FrameReader, SaysWhenTheOtherSideHasEnded) {
  Socket socket;
  FrameRecorder receiver(SinkKind::kWhole);
  FrameParser frames(&receiver);
  FrameReader reader(NewScratch());
  const std::string header = EncodeHeader(NewFrame(3, 100).header);
  socket.Write(header.data(), header.size());
  socket.writing.Reset();
  bool ended = false;
  while (!ended) EXPECT_OK(reader.ReadFrom(socket.reading.get(), &frames, &ended));
  EXPECT_TRUE(receiver.frames.empty());
}

KF_TEST(FrameReader, PassesOnTheErrorOfItsReceiver) {
  const Socket socket;
  FrameRecorder receiver(SinkKind::kWhole);
  receiver.refuse = true;
  FrameParser frames(&receiver);
  FrameReader reader(NewScratch());
  const std::string header = EncodeHeader(NewFrame(3, 0).header);
  socket.Write(header.data(), header.size());
  bool ended = false;
  EXPECT_EQ(reader.ReadFrom(socket.reading.get(), &frames, &ended).code(), Code::kInvalidArgument);
}

KF_TEST(FrameReader, RefusesGarbageAtOnce) {
  const Socket socket;
  FrameRecorder receiver(SinkKind::kWhole);
  FrameParser frames(&receiver);
  FrameReader reader(NewScratch());
  const std::string garbage(kHeaderSize, '\xff');
  socket.Write(garbage.data(), garbage.size());
  bool ended = false;
  EXPECT_EQ(reader.ReadFrom(socket.reading.get(), &frames, &ended).code(), Code::kInvalidArgument);
  EXPECT_TRUE(receiver.frames.empty());
}

// One reading is bounded, so that a flood does not keep the loop from its other connections.
KF_TEST(FrameReader, ReadsABoundedAmountAtATime) {
  const Socket socket;
  const int size = 4 << 20;
  EXPECT_EQ(setsockopt(socket.writing.get(), SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
  EXPECT_EQ(fcntl(socket.writing.get(), F_SETFL, O_NONBLOCK), 0);
  const std::string header = EncodeHeader(NewFrame(3, 0).header);
  size_t sent = 0;
  while (write(socket.writing.get(), header.data(), header.size()) == static_cast<ssize_t>(header.size())) {
    sent += header.size();
  }
  FrameRecorder receiver(SinkKind::kWhole);
  FrameParser frames(&receiver);
  FrameReader reader(NewScratch());
  bool ended = false;
  for (uint64_t before = 0; before < sent; before = reader.bytes_read()) {
    EXPECT_OK(reader.ReadFrom(socket.reading.get(), &frames, &ended));
    EXPECT_LE(reader.bytes_read() - before, 2u << 20);
  }
  EXPECT_EQ(receiver.frames.size(), sent / header.size());
}

}  // namespace
}  // namespace kungfu
