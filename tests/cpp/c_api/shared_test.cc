// Shared memory between real processes: sums without copies, and what is left when one of them is killed.

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <future>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ops/c_api/kungfu.h"
#include "tests/cpp/c_api/processes.h"
#include "tests/cpp/standard_error.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

// An in-place sum of `count` floats; returns the code.
int Sum(float* values, uint64_t count) {
  std::promise<int> code;
  kungfu_options options{};
  options.name = "sum";
  options.dtype = KUNGFU_FLOAT32;
  options.op = KUNGFU_SUM;
  const kungfu_span span{values, values, count};
  kungfu_all_reduce(
      &span, 1, &options,
      [](void* arg, int result, const char*) { static_cast<std::promise<int>*>(arg)->set_value(result); }, &code);
  return code.get_future().get();
}

kungfu_statistics Statistics() {
  kungfu_statistics statistics;
  kungfu_get_statistics(&statistics);
  return statistics;
}

void SumAndCount(int rank) {
  constexpr uint64_t kCount = 1000003;
  auto* values = static_cast<float*>(kungfu_shared_allocate(kCount * sizeof(float)));
  ASSERT_TRUE(values != nullptr);
  EXPECT_GE(Statistics().shared_bytes, kCount * sizeof(float));
  for (int round = 1; round <= 5; ++round) {
    for (uint64_t i = 0; i < kCount; ++i) values[i] = static_cast<float>(i % 1000 + rank);
    EXPECT_EQ(Sum(values, kCount), kOk);
    bool right = true;
    for (uint64_t i = 0; i < kCount; ++i) right &= values[i] == static_cast<float>(3 * (i % 1000) + 3);
    EXPECT_TRUE(right);
    EXPECT_EQ(Statistics().direct, static_cast<uint64_t>(round));
  }
  EXPECT_GE(kungfu_shared_size(values), kCount * sizeof(float));
  EXPECT_GE(kungfu_shared_free(values), kCount * sizeof(float));
  float ordinary = 0;
  EXPECT_EQ(kungfu_shared_size(&ordinary), 0u);
  EXPECT_EQ(kungfu_shared_free(&ordinary), 0u);
  EXPECT_EQ(kungfu_shutdown(), 0);
}

KF_TEST(Shared, SumsOfProcesses) { InPeers(3, SumAndCount); }

KF_TEST(Shared, CanBeTurnedOff) {
  using Setting = std::pair<const char*, const char*>;
  for (const auto& [variable, value] : {Setting{"KUNGFU_DIRECT", "off"}, Setting{"KUNGFU_ARENA_BYTES", "0"},
                                        Setting{"KUNGFU_TRANSPORT", "tcp"}, Setting{"KUNGFU_TRANSPORT", "unix"}}) {
    InPeers(2, [variable = variable, value = value](int) {
      setenv(variable, value, 1);
      EXPECT_TRUE(kungfu_shared_allocate(1) == nullptr);
      std::vector<float> values(100000, 1);
      EXPECT_EQ(Sum(values.data(), values.size()), kOk);
      EXPECT_EQ(values[99999], 2);
      EXPECT_EQ(Statistics().direct, 0u);
      EXPECT_EQ(kungfu_shutdown(), 0);
    });
  }
}

constexpr char kUnused[] = "warning host_meeting.cc";

// What a peer logs while it adds up and nobody works in the memory of others.
std::string LogOfSumWithoutSharing(int size) {
  return StandardErrorOf([size] {
    std::vector<float> values(100000, 1);
    EXPECT_EQ(Sum(values.data(), values.size()), kOk);
    EXPECT_EQ(values[99999], size);
    EXPECT_EQ(Statistics().direct, 0u);
    EXPECT_EQ(kungfu_shutdown(), 0);
  });
}

// One peer alone has it turned off: all hear of it, none does it, and the first one says why.
KF_TEST(Shared, IsUsedByAllOrNone) {
  InPeers(3, [](int rank) {
    if (rank == 1) setenv("KUNGFU_DIRECT", "off", 1);
    const std::string log = LogOfSumWithoutSharing(3);
    EXPECT_EQ(TimesIn(log, kUnused), rank == 0 ? 1u : 0u);
    EXPECT_EQ(TimesIn(log, "do not use each other's memory: rank 1 shares no memory\n"), rank == 0 ? 1u : 0u);
  });
}

KF_TEST(Shared, SaysThatThereAreTooManyForIt) {
  InPeers(17, [](int rank) {
    const std::string log = LogOfSumWithoutSharing(17);
    const std::string said = "do not use each other's memory: 17 are more than the 16 that can\n";
    EXPECT_EQ(TimesIn(log, kUnused), rank == 0 ? 1u : 0u);
    EXPECT_EQ(TimesIn(log, said), rank == 0 ? 1u : 0u);
  });
}

// All have memory, and one peer has no room left where it could map that of others. An emulator sets no such limit.
KF_TEST(Shared, SaysWhoCannotMapTheOthersMemory) {
  if (kEmulated) return;
  InPeers(3, [](int rank) {
    setenv("KUNGFU_ARENA_BYTES", "4294967296", 1);
    EXPECT_TRUE(kungfu_shared_allocate(1) != nullptr);
    if (rank == 2) {
      uint64_t pages = 0;
      std::ifstream("/proc/self/statm") >> pages;
      const rlim_t most = pages * sysconf(_SC_PAGESIZE) + (1 << 30);
      const rlimit limit{most, most};
      EXPECT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    }
    const std::string log = LogOfSumWithoutSharing(3);
    EXPECT_EQ(TimesIn(log, kUnused), rank == 0 ? 1u : 0u);
    if (rank != 0) return;
    EXPECT_CONTAINS(log, "do not use each other's memory: rank 2 cannot use the memory of rank 0: /proc/");
    EXPECT_CONTAINS(log, ": Cannot allocate memory\n");
  });
}

// The inodes of what this process has mapped of ours that others can map, too.
std::set<std::string> SharedMemoryMapped() {
  std::ifstream maps("/proc/self/maps");
  std::set<std::string> inodes;
  std::string address, permissions, offset, device, inode, rest;
  while (maps >> address >> permissions >> offset >> device >> inode && std::getline(maps, rest)) {
    if (rest.find("/memfd:kungfu") != std::string::npos) inodes.insert(inode);
  }
  return inodes;
}

// What the processes and the test tell each other; in memory that the processes inherit.
struct Progress {
  std::atomic<int> started{0};
};

// The survivors let go of its memory, and of what they share with each other.
KF_TEST(Shared, APeerIsKilledAtAnyMoment) {
  constexpr int kRounds = 100;
  constexpr int kPeers = 3;
  auto* progress = static_cast<Progress*>(
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::mt19937 random(7);
  for (int round = 0; round < kRounds; ++round) {
    progress->started = 0;
    const auto body = [progress, round](int) {
      // Every other time the data take the transport's rings.
      if (round % 2 == 1) setenv("KUNGFU_DIRECT_BYTES", "1000000000", 1);
      constexpr uint64_t kCount = 300000;
      auto* values = static_cast<float*>(kungfu_shared_allocate(kCount * sizeof(float)));
      const std::set<std::string> mine = SharedMemoryMapped();
      int code = Sum(values, kCount);
      EXPECT_GE(SharedMemoryMapped().size(), mine.size() + kPeers - 1);
      ++progress->started;
      while (code == kOk) code = Sum(values, kCount);
      EXPECT_EQ(code, kUnavailable);
      EXPECT_EQ(kungfu_shutdown(), 0);
      EXPECT_TRUE(SharedMemoryMapped() == mine);
    };
    const auto when = [&] {
      while (progress->started < kPeers) usleep(1000);
      usleep(random() % 5000);
    };
    InPeersOneKilled(kPeers, body, static_cast<int>(random() % kPeers), when);
  }
  munmap(progress, sizeof(Progress));
}

}  // namespace
}  // namespace kungfu::testing
