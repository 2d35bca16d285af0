#include "ops/base/cores.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>
#include <vector>

namespace kungfu {
namespace {

// "max" is none.
void AppendNumbers(const std::string& path, std::vector<long>* numbers) {
  std::ifstream file(path);
  for (long number; file >> number;) numbers->push_back(number);
}

// The quota of one cgroup, rounded up; 0: none.
int QuotaOfCgroup(const std::string& cgroup) {
  std::vector<long> numbers;  // quota, period
  AppendNumbers(cgroup + "/cpu.max", &numbers);
  AppendNumbers(cgroup + "/cpu.cfs_quota_us", &numbers);
  AppendNumbers(cgroup + "/cpu.cfs_period_us", &numbers);
  if (numbers.size() != 2 || numbers[0] <= 0 || numbers[1] <= 0) return 0;
  return static_cast<int>((numbers[0] + numbers[1] - 1) / numbers[1]);
}

}  // namespace

// The least quota of the process' cgroups, and of the ones around them, counts.
int QuotaOfCores(const std::string& own, const std::string& mounted) {
  int least = 0;
  std::ifstream lines(own);
  for (std::string line; std::getline(lines, line);) {  // number:controllers:path
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool unified = controllers == ",,";
    if (!unified && controllers.find(",cpu,") == std::string::npos) continue;
    const std::string top = mounted + (unified ? "" : "/cpu");
    // A container may see only its own cgroup, at the top, whatever path the system tells.
    std::string path = line.substr(second + 1);
    for (size_t end = path.size(); end != std::string::npos; end = path.rfind('/')) {
      path.resize(end);
      const int quota = QuotaOfCgroup(top + path);
      if (quota > 0) least = least > 0 ? std::min(least, quota) : quota;
    }
  }
  return least;
}

int CoresOfThisProcess() {
  cpu_set_t set;
  const int cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  const int quota = QuotaOfCores("/proc/self/cgroup", "/sys/fs/cgroup");
  return quota > 0 ? std::min(cores, quota) : cores;
}

void KeepCoreForWaker() {
  static thread_local bool done = false;
  if (std::exchange(done, true)) return;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0 || CPU_COUNT(&set) != 1) return;
  const bool is_main = syscall(SYS_gettid) == getpid();
  if (is_main || sched_getscheduler(0) != SCHED_OTHER) return;
  const sched_param none{};
  sched_setscheduler(0, SCHED_BATCH, &none);
}

}  // namespace kungfu
