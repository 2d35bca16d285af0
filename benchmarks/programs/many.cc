// One of many peers: how soon all have met, and what each of them needs.
//
//   benchmark_many REPORT
//
// Rank 0 writes to REPORT "ready SECONDS", from the start of the first peer until the last one has a sum of 64 KiB that
// is right, and "memory BYTES", the largest proportional set size of a peer after it.

#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "benchmarks/programs/checked_sum.h"
#include "ops/c_api/kungfu.h"

namespace {

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double ProportionalSetSize() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  std::string word;
  double kilobytes = 0;
  while (rollup >> word) {
    if (word == "Pss:" && rollup >> kilobytes) return kilobytes * 1024;
  }
  Die("no proportional set size in /proc/self/smaps_rollup");
}

// Over all peers, for every one of them.
double Largest(double value) {
  const kungfu_span span = InPlace(&value, 1);
  AllReduce(&span, 1, KUNGFU_FLOAT64, KUNGFU_MAX);
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  const double start = Now();
  if (argc != 2) Die("usage: benchmark_many REPORT");
  if (kungfu_init() != 0) Die(kungfu_last_error());
  std::vector<float> values((64 << 10) / sizeof(float));
  Verify({InPlace(values.data(), values.size())});
  const double end = Now(), memory = ProportionalSetSize();
  const double first = -Largest(-start), last = Largest(end), largest = Largest(memory);
  if (kungfu_rank() == 0) std::ofstream(argv[1]) << "ready " << last - first << "\nmemory " << largest << '\n';
  return kungfu_shutdown();
}
