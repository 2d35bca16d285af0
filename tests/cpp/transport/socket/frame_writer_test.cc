#include "ops/transport/socket/frame_writer.h"

#include <sys/socket.h>
#include <unistd.h>

#include "ops/base/unique_fd.h"
#include "tests/cpp/testing.h"
#include "tests/cpp/transport/recording_sink.h"

namespace kungfu {
namespace {

using testing::Pattern;

struct SmallSocket {
  SmallSocket() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    reading = UniqueFd(ends[0]);
    writing = UniqueFd(ends[1]);
    // So small that hardly a write is whole.
    const int size = 4096;
    EXPECT_EQ(setsockopt(writing.get(), SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
  }
  std::string Drain() const {
    std::string all;
    char bytes[3001];
    for (ssize_t got; (got = read(reading.get(), bytes, sizeof(bytes))) > 0;) all.append(bytes, got);
    return all;
  }

  UniqueFd reading, writing;
};

Status Write(FrameWriter* writer, const SmallSocket& socket) {
  SocketOutput output(socket.writing.get());
  return writer->WriteTo(&output);
}

KF_TEST(FrameWriter, WritesFramesInOrderHoweverLittleTheSystemTakes) {
  const SmallSocket socket;
  FrameWriter writer;
  std::vector<std::string> keep;
  keep.reserve(2000);
  std::string expected;
  std::vector<int> finished;
  const auto push = [&](const std::vector<size_t>& sizes) {
    FrameHeader header;
    header.tag.name = Pattern(8 + keep.size() % 7, 1);
    expected += EncodeHeader(header);
    Payload payload;
    for (const size_t size : sizes) {
      keep.push_back(Pattern(size, keep.size()));
      expected += keep.back();
      payload.push_back({keep.back().data(), size});
    }
    const int id = static_cast<int>(finished.size());
    finished.push_back(0);
    *writer.Push(header, payload) = [&finished, id](const Status& status) {
      EXPECT_OK(status);
      for (int i = 0; i < id; ++i) EXPECT_EQ(finished[i], 1);
      ++finished[id];
    };
  };
  push({});
  push({0, 0, 5, 0, 100000, 0});
  push(std::vector<size_t>(1000, 13));
  push({0});
  for (int i = 0; i < 300; ++i) push({1});

  std::string received;
  while (!writer.empty()) {
    EXPECT_OK(Write(&writer, socket));
    for (const StatusCallback& done : writer.TakeWritten()) done(OkStatus());
    received += socket.Drain();
  }
  EXPECT_TRUE(received == expected);
  EXPECT_EQ(writer.bytes_written(), expected.size());
  for (const int count : finished) EXPECT_EQ(count, 1);
}

KF_TEST(FrameWriter, GivesBackTheCallbacksOfWhatIsNotWritten) {
  const SmallSocket socket;
  FrameWriter writer;
  const std::string large = Pattern(1 << 20, 1);
  std::string called;
  for (const char name : {'a', 'b', 'c'}) {
    *writer.Push(FrameHeader(), {{large.data(), large.size()}}) = [&called, name](const Status&) { called += name; };
  }
  writer.Push(FrameHeader(), {});  // without one
  EXPECT_OK(Write(&writer, socket));
  EXPECT_TRUE(writer.TakeWritten().empty());
  for (const StatusCallback& done : writer.TakeUnwritten()) done(CancelledError(""));
  EXPECT_EQ(called, "abc");
  EXPECT_TRUE(writer.empty());
}

KF_TEST(FrameWriter, SaysThatTheOtherSideIsGone) {
  SmallSocket socket;
  socket.reading.Reset();
  FrameWriter writer;
  writer.Push(FrameHeader(), {});
  EXPECT_EQ(Write(&writer, socket).code(), Code::kUnavailable);
}

}  // namespace
}  // namespace kungfu
