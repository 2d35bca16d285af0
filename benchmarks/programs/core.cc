// One peer: in-place float32 sums through the C interface, in shared or in ordinary memory.
//
//   benchmark_core shared|ordinary REPORT BYTES...
//
// Each sum is checked before it is timed. Rank 0 writes "BYTES SECONDS" to REPORT for each size.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "benchmarks/programs/checked_sum.h"
#include "benchmarks/programs/timing.h"
#include "ops/c_api/kungfu.h"

int main(int argc, char** argv) {
  if (argc < 4) Die("usage: benchmark_core shared|ordinary REPORT BYTES...");
  if (kungfu_init() != 0) Die(kungfu_last_error());
  const bool shared = std::strcmp(argv[1], "shared") == 0;
  std::ofstream report;
  if (kungfu_rank() == 0) report.open(argv[2]);
  for (int i = 3; i < argc; ++i) {
    const size_t bytes = std::stoul(argv[i]);
    const size_t count = bytes / sizeof(float);
    void* memory = shared ? kungfu_shared_allocate(bytes) : std::malloc(bytes);
    if (memory == nullptr) Die("no memory");
    auto* values = static_cast<float*>(memory);
    Verify(values, count);
    std::fill(values, values + count, 0.0f);
    const double median = MedianSeconds(bytes, [] {}, [&] { Sum(values, count); });
    if (kungfu_rank() == 0) report << bytes << ' ' << median << '\n';
    if (kungfu_shared_free(memory) == 0) std::free(memory);
  }
  return kungfu_shutdown();
}
