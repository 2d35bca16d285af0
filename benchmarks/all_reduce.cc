// One peer of benchmarks/all_reduce.py: in-place float32 sums through the C interface, without Python and TensorFlow.
//
//   all_reduce_benchmark REPORT BYTES...
//
// For each size: a sum of known values is checked, then a fixed number of sums is timed, each from the call until its
// callback. Rank 0 writes a line "BYTES MEDIAN_SECONDS" for each size to REPORT.

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "benchmarks/checked_sum.h"
#include "ops/c_api/kungfu.h"

namespace {

// The same number on every peer: enough for a median, about a second at most.
int Repetitions(size_t bytes) { return static_cast<int>(std::clamp<size_t>((size_t{400} << 20) / bytes, 11, 1001)); }

double MedianSeconds(std::vector<float>* values) {
  std::fill(values->begin(), values->end(), 0.0f);
  const int repetitions = Repetitions(values->size() * sizeof(float));
  std::vector<double> seconds;
  for (int i = -repetitions / 10; i < repetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    Sum(values->data(), values->size());
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (i >= 0) seconds.push_back(elapsed.count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + repetitions / 2, seconds.end());
  return seconds[repetitions / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) Die("usage: all_reduce_benchmark REPORT BYTES...");
  if (kungfu_init() != 0) Die(kungfu_last_error());
  std::ofstream report;
  if (kungfu_rank() == 0) report.open(argv[1]);
  for (int i = 2; i < argc; ++i) {
    const size_t bytes = std::stoul(argv[i]);
    std::vector<float> values(bytes / sizeof(float));
    Verify(values.data(), values.size());
    const double median = MedianSeconds(&values);
    if (kungfu_rank() == 0) report << bytes << ' ' << median << '\n';
  }
  return kungfu_shutdown();
}
