#include "ops/monitor/timeline.h"

#include <fstream>
#include <iterator>
#include <string>

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

// A file of a test, which goes with it.
class File {
 public:
  File() : path_("/tmp/kungfu_timeline_" + std::to_string(getpid())) {}
  ~File() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }
  std::string Read() const {
    std::ifstream in(path_);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  const std::string path_;
};

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

KF_TEST(Timeline, HasTwoEventsForEachOperation) {
  const File file;
  StatusOr<std::unique_ptr<Timeline>> timeline = Timeline::Open(file.path(), 3, "rank 3");
  ASSERT_TRUE(timeline.ok());
  const Clock::time_point now = Clock::now();
  (*timeline)->Add("a", now, now + std::chrono::nanoseconds(1500), 16, true);
  (*timeline)->Add("b", now, now, 0, false);
  EXPECT_OK((*timeline)->Close());
  const std::string text = file.Read();
  EXPECT_EQ(text.substr(0, 2), "[\n");
  EXPECT_EQ(text.substr(text.size() - 4), "}\n]\n");
  EXPECT_EQ(Count(text, "\"ph\":\"b\""), 2);
  EXPECT_EQ(Count(text, "\"ph\":\"e\""), 2);
  EXPECT_EQ(Count(text, "\"pid\":3"), 5);
  EXPECT_EQ(Count(text, R"("name":"a","args":{"bytes":16,"ok":true}})"), 1);
  EXPECT_EQ(Count(text, R"("name":"b","args":{"bytes":0,"ok":false}})"), 1);
}

KF_TEST(Timeline, QuotesNames) {
  const File file;
  StatusOr<std::unique_ptr<Timeline>> timeline = Timeline::Open(file.path(), 0, "a \"peer\"");
  ASSERT_TRUE(timeline.ok());
  (*timeline)->Add("x\\y\n", {}, {}, 0, true);
  EXPECT_OK((*timeline)->Close());
  EXPECT_EQ(Count(file.Read(), R"("name":"a \"peer\"")"), 1);
  EXPECT_EQ(Count(file.Read(), R"("name":"x\\y\u000a")"), 2);
}

KF_TEST(Timeline, WritesAtTheLatestWithTheEventOfTheNextSecond) {
  const File file;
  StatusOr<std::unique_ptr<Timeline>> timeline = Timeline::Open(file.path(), 0, "peer");
  ASSERT_TRUE(timeline.ok());
  (*timeline)->Add("early", {}, {}, 0, true);
  EXPECT_EQ(file.Read(), "");
  (*timeline)->Add("late", Clock::now(), After(Seconds(1)), 0, true);
  EXPECT_EQ(Count(file.Read(), "\"late\""), 2);
}

KF_TEST(Timeline, SaysWhyThereIsNoFile) {
  const StatusOr<std::unique_ptr<Timeline>> timeline = Timeline::Open("/nowhere/trace.json", 0, "peer");
  EXPECT_EQ(timeline.status().message(), "timeline /nowhere/trace.json: No such file or directory");
}

KF_TEST(Timeline, SaysThatTheDiskIsFull) {
  StatusOr<std::unique_ptr<Timeline>> timeline = Timeline::Open("/dev/full", 0, "peer");
  ASSERT_TRUE(timeline.ok());
  EXPECT_EQ((*timeline)->Close().message(), "timeline /dev/full: No space left on device");
}

}  // namespace
}  // namespace kungfu
