// One of many peers: how soon all have met, and what each of them needs.
//
//   benchmark_many REPORT
//
// Rank 0 writes to REPORT, of a sum of 64 KiB:
//
//   ready SECONDS       from the start of the first peer until the last one has the first sum, and it is right
//   hundredth SECONDS   from then until it has a hundred
//   memory BYTES        the largest proportional set size of a peer after the first
//   all_memory BYTES    the proportional set sizes of all peers
//   descriptors NUMBER  the most files that a peer has opened for the first
//   connections NUMBER  the pairs of peers that have sent each other anything

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "benchmarks/programs/checked_sum.h"
#include "ops/c_api/kungfu.h"
#include "ops/c_api/kungfu_monitor.h"

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

double OpenFiles() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<double>(std::distance(begin(files), end(files)));
}

// The peers that this one has exchanged messages with.
double Partners() {
  std::vector<kungfu_traffic> traffic(kungfu_size());
  kungfu_get_traffic(traffic.data(), kungfu_size());
  return static_cast<double>(std::count_if(traffic.begin(), traffic.end(), [](const kungfu_traffic& one) {
    return one.total.egress_bytes + one.total.ingress_bytes > 0;
  }));
}

// Over all peers, for every one of them.
double Combined(double value, kungfu_reduce_op op) {
  const kungfu_span span = InPlace(&value, 1);
  AllReduce(&span, 1, KUNGFU_FLOAT64, op);
  return value;
}

double Largest(double value) { return Combined(value, KUNGFU_MAX); }
double Total(double value) { return Combined(value, KUNGFU_SUM); }

}  // namespace

int main(int argc, char** argv) {
  const double start = Now();
  if (argc != 2) Die("usage: benchmark_many REPORT");
  if (kungfu_init() != 0) Die(kungfu_last_error());
  std::vector<float> values((64 << 10) / sizeof(float));
  const std::vector<kungfu_span> spans = {InPlace(values.data(), values.size())};
  const double files = OpenFiles();
  Verify(spans);
  // The list of partners takes memory of its own.
  const double end = Now(), opened = OpenFiles() - files, memory = ProportionalSetSize(), partners = Partners();
  const double first = -Largest(-start), last = Largest(end), largest = Largest(memory), all = Total(memory);
  const double descriptors = Largest(opened), connections = Total(partners) / 2;
  const double again = Now();
  for (int i = 1; i < 100; ++i) Sum(spans);
  const double hundredth = Largest(Now() - again);
  if (kungfu_rank() == 0) {
    std::ofstream(argv[1]) << "ready " << last - first << "\nhundredth " << hundredth << "\nmemory " << largest
                           << "\nall_memory " << all << "\ndescriptors " << descriptors << "\nconnections "
                           << connections << '\n';
  }
  return kungfu_shutdown();
}
