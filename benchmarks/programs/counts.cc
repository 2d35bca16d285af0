// One peer: a float32 sum in place that is repeated, so that what it costs can be counted.
//
//   benchmark_counts REPORT REPETITIONS BYTES shared|ordinary [TOOL...]
//
// Rank 0 runs under TOOL, which counts what it does in `Repeat`. With counting.h it counts itself, in all its threads,
// and writes "KEY NUMBER" of one sum to REPORT. Its peer is as fast as can be: so rank 0 never waits for it.

#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "benchmarks/programs/checked_sum.h"
#include "benchmarks/programs/counting.h"
#include "ops/c_api/kungfu.h"

namespace {

bool IsFirst() {
  const char *const self = std::getenv("KUNGFU_SELF"), *const peers = std::getenv("KUNGFU_PEERS");
  return self != nullptr && peers != nullptr && std::string(peers).rfind(std::string(self) + ",", 0) == 0;
}

struct Now {
  Now() {
    if (auto* const count = reinterpret_cast<decltype(&benchmark_count)>(dlsym(RTLD_DEFAULT, "benchmark_count"))) {
      count(&counted);
    }
    kungfu_get_statistics(&statistics);
  }
  Counted counted{};
  kungfu_statistics statistics{};
};

}  // namespace

extern "C" {

// A function of its own, whose cost callgrind can tell.
__attribute__((noinline)) void Repeat(const kungfu_span* span, int times) {
  for (int i = 0; i < times; ++i) AllReduce(span, 1, KUNGFU_FLOAT32, KUNGFU_SUM);
}

}  // extern "C"

int main(int argc, char** argv) {
  if (argc < 5) Die("usage: benchmark_counts REPORT REPETITIONS BYTES shared|ordinary [TOOL...]");
  if (argc > 5 && IsFirst()) {
    std::vector<char*> command(argv + 5, argv + argc);
    command.insert(command.end(), argv, argv + 5);
    command.push_back(nullptr);
    execvp(command[0], command.data());
    Die(std::string(command[0]) + ": " + std::strerror(errno));
  }
  if (kungfu_init() != 0) Die(kungfu_last_error());
  const int repetitions = std::atoi(argv[2]);
  const size_t bytes = std::strtoul(argv[3], nullptr, 10);
  const bool shared = std::strcmp(argv[4], "shared") == 0;
  void* const memory = shared ? kungfu_shared_allocate(bytes) : std::malloc(bytes);
  if (memory == nullptr) Die("no memory");
  const kungfu_span span = InPlace(memory, bytes / sizeof(float));
  Verify({span});
  std::memset(memory, 0, bytes);
  for (int i = 0; i < 20; ++i) AllReduce(&span, 1, KUNGFU_FLOAT32, KUNGFU_SUM);
  const Now before;
  Repeat(&span, repetitions);
  const Now after;
  if (kungfu_rank() == 0) {
    std::ofstream report(argv[1]);
    const auto tell = [&](const char* key, uint64_t from, uint64_t to) {
      report << key << ' ' << static_cast<double>(to - from) / repetitions << '\n';
    };
    tell("allocations", before.counted.allocations, after.counted.allocations);
    tell("clock_reads", before.counted.clock_reads, after.counted.clock_reads);
    tell("context_switches", before.counted.context_switches, after.counted.context_switches);
    tell("copied", before.counted.copied, after.counted.copied);
    tell("sent", before.statistics.bytes_sent, after.statistics.bytes_sent);
  }
  return kungfu_shutdown();
}
