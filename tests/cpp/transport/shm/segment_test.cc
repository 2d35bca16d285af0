#include "ops/transport/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

constexpr size_t kSize = 1 << 20;

KF_TEST(Segment, IsTheSameMemoryForBoth) {
  UniqueFd fd;
  const StatusOr<Segment> ours = Segment::Create(kSize, &fd);
  EXPECT_OK(ours.status());
  const StatusOr<Segment> theirs = Segment::Map(fd, kSize);
  EXPECT_OK(theirs.status());
  fd.Reset();
  EXPECT_EQ(ours->size(), kSize);
  EXPECT_EQ(theirs->data()[kSize - 1], 0);
  std::strcpy(ours->data() + 1000, "hello");
  EXPECT_EQ(std::string(theirs->data() + 1000), "hello");
}

KF_TEST(Segment, RefusesWhatIsNoSegment) {
  UniqueFd fd;
  const StatusOr<Segment> segment = Segment::Create(kSize, &fd);
  EXPECT_OK(segment.status());
  for (const size_t other_size : {size_t{0}, kSize - 1, 2 * kSize}) {
    EXPECT_EQ(Segment::Map(fd, other_size).status().code(), Code::kInvalidArgument);
  }
  const UniqueFd can_shrink(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(can_shrink.get(), kSize), 0);
  int pipe_ends[2];
  EXPECT_EQ(pipe(pipe_ends), 0);
  const UniqueFd reading(pipe_ends[0]), writing(pipe_ends[1]), device(open("/dev/zero", O_RDWR));
  for (const UniqueFd* wrong : {&can_shrink, &reading, &device}) {
    EXPECT_EQ(Segment::Map(*wrong, kSize).status().code(), Code::kInvalidArgument);
  }
}

KF_TEST(Segment, IsAnErrorBeyondTheLimits) {
  rlimit limit;
  EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit lowered{kSize - 1, limit.rlim_max};
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &lowered), 0);
  UniqueFd fd;
  EXPECT_EQ(Segment::Create(kSize, &fd).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

}  // namespace
}  // namespace kungfu
