// Memory that is opened a second time, as another process would.

#include "ops/memory/shared_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

constexpr size_t kBytes = 1 << 20;

KF_TEST(SharedMemory, IsTheSameForAll) {
  StatusOr<SharedMemory> mine = SharedMemory::Create("test", kBytes);
  ASSERT_TRUE(mine.ok());
  StatusOr<SharedMemory> theirs = SharedMemory::Open(mine->address());
  ASSERT_TRUE(theirs.ok());
  EXPECT_EQ(theirs->size(), kBytes);
  EXPECT_TRUE(mine->data() != theirs->data());
  EXPECT_EQ(theirs->data()[kBytes - 1], 0);
  mine->data()[7] = 'a';
  theirs->data()[8] = 'b';
  EXPECT_EQ(std::string(theirs->data() + 7, 2), "ab");
  EXPECT_EQ(std::string(mine->data() + 7, 2), "ab");
}

KF_TEST(SharedMemory, OutlivesWhoMadeIt) {
  StatusOr<SharedMemory> mine = SharedMemory::Create("test", kBytes);
  ASSERT_TRUE(mine.ok());
  StatusOr<SharedMemory> theirs = SharedMemory::Open(mine->address());
  ASSERT_TRUE(theirs.ok());
  mine->data()[0] = 'x';
  *mine = SharedMemory();
  EXPECT_EQ(theirs->data()[0], 'x');
}

// What the kernel says of the mapping that an address lies in.
std::string FlagsAt(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  bool is_here = false;
  std::ifstream maps("/proc/self/smaps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) is_here = begin <= at && at < end;
    if (is_here && line.rfind("VmFlags:", 0) == 0) return line + " ";
  }
  return "";
}

// Whether there are any is the system's affair. An emulator keeps the wish to itself.
KF_TEST(SharedMemory, WouldLieInLargePages) {
  if (testing::kEmulated || access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0) return;
  StatusOr<SharedMemory> mine = SharedMemory::Create("test", kBytes);
  ASSERT_TRUE(mine.ok());
  StatusOr<SharedMemory> theirs = SharedMemory::Open(mine->address());
  ASSERT_TRUE(theirs.ok());
  EXPECT_CONTAINS(FlagsAt(mine->data()), " hg ");
  EXPECT_CONTAINS(FlagsAt(theirs->data()), " hg ");
}

KF_TEST(SharedMemory, IsBelievedOnlyWithTheSecret) {
  StatusOr<SharedMemory> mine = SharedMemory::Create("test", kBytes);
  ASSERT_TRUE(mine.ok());
  const auto expect_refused = [&](void (*change)(SharedMemoryAddress*), const std::string& why) {
    SharedMemoryAddress address = mine->address();
    change(&address);
    const StatusOr<SharedMemory> theirs = SharedMemory::Open(address);
    EXPECT_FALSE(theirs.ok());
    EXPECT_CONTAINS(theirs.status().message(), why);
  };
  expect_refused([](SharedMemoryAddress* address) { address->secret[3] ^= 1; }, "is not its memory: are");
  expect_refused([](SharedMemoryAddress* address) { address->size += 4096; }, "is not its memory");
  expect_refused([](SharedMemoryAddress* address) { address->fd = 0; }, "/proc/");
  expect_refused([](SharedMemoryAddress* address) { address->fd = 12345; }, "No such file or directory: are");
  expect_refused([](SharedMemoryAddress* address) { *address = {}; }, "no shared memory");
}

KF_TEST(SharedMemory, WhatIsWithdrawnIsOutOfReach) {
  StatusOr<SharedMemory> mine = SharedMemory::Create("test", kBytes);
  ASSERT_TRUE(mine.ok());
  StatusOr<SharedMemory> theirs = SharedMemory::Open(mine->address());
  ASSERT_TRUE(theirs.ok());
  const size_t page = SharedMemory::PageSize();
  std::memset(theirs->data(), 'x', 3 * page);
  mine->Withdraw(mine->data() + page, page);
  EXPECT_EQ(mine->data()[page], 0);
  std::memset(theirs->data(), 'y', 3 * page);
  EXPECT_EQ(mine->data()[page - 1], 'y');
  EXPECT_EQ(mine->data()[page], 0);
  EXPECT_EQ(mine->data()[2 * page - 1], 0);
  EXPECT_EQ(mine->data()[2 * page], 'y');
  mine->data()[page] = 'm';
  EXPECT_EQ(theirs->data()[page], 'y');
}

KF_TEST(SharedMemory, IsAnErrorBeyondTheLimits) {
  rlimit limit;
  EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit lowered{1 << 20, limit.rlim_max};
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &lowered), 0);
  const Status status = SharedMemory::Create("large", 1 << 20).status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_CONTAINS(status.message(), "ulimit -f");
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

}  // namespace
}  // namespace kungfu::testing
