// One peer: in-place float32 sums through the C interface, in shared or in ordinary memory.
//
//   benchmark_core shared|ordinary REPORT ARRAYS...
//
// ARRAYS as in arrays.h; those that belong together are one operation. Each sum is checked before it is timed. Rank 0
// writes "KEY SECONDS" to REPORT for each.

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "benchmarks/programs/arrays.h"
#include "benchmarks/programs/checked_sum.h"
#include "benchmarks/programs/timing.h"
#include "ops/c_api/kungfu.h"

int main(int argc, char** argv) {
  if (argc < 4) Die("usage: benchmark_core shared|ordinary REPORT ARRAYS...");
  if (kungfu_init() != 0) Die(kungfu_last_error());
  const bool shared = std::strcmp(argv[1], "shared") == 0;
  std::ofstream report;
  if (kungfu_rank() == 0) report.open(argv[2]);
  for (int i = 3; i < argc; ++i) {
    const Arrays arrays(argv[i]);
    std::vector<kungfu_span> spans;
    for (const size_t bytes : arrays.bytes) {
      void* const memory = shared ? kungfu_shared_allocate(bytes) : std::malloc(bytes);
      if (memory == nullptr) Die("no memory");
      spans.push_back(InPlace(memory, bytes / sizeof(float)));
    }
    Verify(spans);
    for (size_t k = 0; k < spans.size(); ++k) std::memset(spans[k].recv, 0, arrays.bytes[k]);
    const double median = MedianSeconds(arrays.total(), [] {}, [&] { Sum(spans); });
    if (kungfu_rank() == 0) report << arrays.key << ' ' << median << '\n';
    for (const kungfu_span& span : spans) {
      if (kungfu_shared_free(span.recv) == 0) std::free(span.recv);
    }
  }
  return kungfu_shutdown();
}
