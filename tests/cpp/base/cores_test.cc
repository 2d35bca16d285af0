// Quotas of cgroups, as containers have them, and the threads of a pool that share a core.

#include "ops/base/cores.h"

#include <sched.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

constexpr char kV1[] = "3:memory:/a/b\n2:cpuacct,cpu:/a/b\n";

// `files`: by their places below where cgroups are mounted.
int QuotaOf(const std::string& own, const std::map<std::string, std::string>& files) {
  char directory[] = "/tmp/kungfu-test-XXXXXX";
  EXPECT_TRUE(mkdtemp(directory) != nullptr);
  const std::filesystem::path top = directory;
  std::ofstream(top / "own") << own;
  for (const auto& [name, text] : files) {
    const std::filesystem::path path = top / "mounted" / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  const int quota = QuotaOfCores(top / "own", top / "mounted");
  std::filesystem::remove_all(top);
  return quota;
}

KF_TEST(Cores, QuotaIsRoundedUp) {
  EXPECT_EQ(QuotaOf("0::/\n", {{"cpu.max", "200000 100000\n"}}), 2);
  EXPECT_EQ(QuotaOf("0::/\n", {{"cpu.max", "250000 100000\n"}}), 3);
  EXPECT_EQ(QuotaOf("0::/\n", {{"cpu.max", "1000 100000\n"}}), 1);
}

KF_TEST(Cores, NoQuota) {
  EXPECT_EQ(QuotaOf("0::/\n", {{"cpu.max", "max 100000\n"}}), 0);
  EXPECT_EQ(QuotaOf("0::/\n", {{"cpu.max", "of another kind\n"}}), 0);
  EXPECT_EQ(QuotaOf("0::/\n", {}), 0);
  EXPECT_EQ(QuotaOf("0::/a\n", {{"b/cpu.max", "5000 1000"}}), 0);
  EXPECT_EQ(QuotaOf("", {{"cpu.max", "1000 1000"}}), 0);
  EXPECT_EQ(QuotaOfCores("/nowhere/own", "/nowhere"), 0);
}

KF_TEST(Cores, TheLeastQuotaCounts) {
  EXPECT_EQ(QuotaOf("0::/a/b\n", {{"a/b/cpu.max", "max 1000"}, {"a/cpu.max", "4000 1000"}}), 4);
  EXPECT_EQ(QuotaOf("0::/a/b\n", {{"a/b/cpu.max", "3000 1000"}, {"a/cpu.max", "4000 1000"}}), 3);
  EXPECT_EQ(QuotaOf("0::/a/b\n", {{"a/b/cpu.max", "9000 1000"}, {"a/cpu.max", "4000 1000"}}), 4);
  // A container sees its own at the top, and is told the host's path.
  EXPECT_EQ(QuotaOf("0::/a/b\n", {{"cpu.max", "5000 1000"}}), 5);
}

KF_TEST(Cores, QuotaOfVersionOne) {
  const auto quota_at = [](const std::string& cgroup, const char* quota) {
    return QuotaOf(kV1, {{cgroup + "/cpu.cfs_quota_us", quota}, {cgroup + "/cpu.cfs_period_us", "100000\n"}});
  };
  EXPECT_EQ(quota_at("cpu/a/b", "150000\n"), 2);
  EXPECT_EQ(quota_at("cpu", "400000\n"), 4);
  EXPECT_EQ(quota_at("cpu/a/b", "-1\n"), 0);
  EXPECT_EQ(quota_at("memory/a/b", "400000\n"), 0);
}

KF_TEST(Cores, OfThisProcess) {
  cpu_set_t set;
  EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  EXPECT_GE(CoresOfThisProcess(), 1);
  EXPECT_LE(CoresOfThisProcess(), CPU_COUNT(&set));
}

// In a thread of its own, with so many of the cores of this one.
template <typename Run>
void RunWithCores(int most, Run run) {
  std::thread([&] {
    cpu_set_t cores;
    EXPECT_EQ(sched_getaffinity(0, sizeof(cores), &cores), 0);
    for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&cores) > most; ++core) CPU_CLR(core, &cores);
    EXPECT_EQ(sched_setaffinity(0, sizeof(cores), &cores), 0);
    run(CPU_COUNT(&cores));
  }).join();
}

KF_TEST(Cores, OneIsKeptForWakers) {
  RunWithCores(1, [](int) {
    KeepCoreForWaker();
    EXPECT_EQ(sched_getscheduler(0), SCHED_BATCH);
  });
}

// On a machine of one core that is the one.
KF_TEST(Cores, OfSeveralNoneIsKept) {
  RunWithCores(CPU_SETSIZE, [](int cores) {
    KeepCoreForWaker();
    EXPECT_EQ(sched_getscheduler(0), cores > 1 ? SCHED_OTHER : SCHED_BATCH);
  });
}

KF_TEST(Cores, APolicyOfOnesOwnStays) {
  RunWithCores(1, [](int) {
    const sched_param none{};
    EXPECT_EQ(sched_setscheduler(0, SCHED_IDLE, &none), 0);
    KeepCoreForWaker();
    EXPECT_EQ(sched_getscheduler(0), SCHED_IDLE);
  });
}

// A program waits in its main thread for the end of a step.
KF_TEST(Cores, NotKeptByTheMainThread) {
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  KeepCoreForWaker();
  EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
  EXPECT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
}

}  // namespace
}  // namespace kungfu::testing
