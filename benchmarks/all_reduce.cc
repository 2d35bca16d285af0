// One peer of benchmarks/all_reduce.py: in-place float32 sums through the C interface, without Python and TensorFlow.
//
//   all_reduce_benchmark REPORT BYTES...
//
// For each size: a sum of known values is checked, then a fixed number of sums is timed, each from the call until its
// callback. Rank 0 writes a line "BYTES MEDIAN_SECONDS" for each size to REPORT.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "ops/c_api/kungfu.h"

namespace {

[[noreturn]] void Die(const std::string& why) {
  std::fprintf(stderr, "all_reduce_benchmark: rank %d: %s\n", kungfu_rank(), why.c_str());
  std::exit(1);
}

void Sum(std::vector<float>* values) {
  kungfu_options options{};
  options.name = "benchmark";
  options.dtype = KUNGFU_FLOAT32;
  options.op = KUNGFU_SUM;
  const kungfu_span span{values->data(), values->data(), values->size()};
  struct Call {
    const kungfu_span* span;
    const kungfu_options* options;
  } call{&span, &options};
  const auto start = [](void* arg, kungfu_done done, void* done_arg) {
    const auto* call = static_cast<const Call*>(arg);
    kungfu_all_reduce(call->span, 1, call->options, done, done_arg);
  };
  if (kungfu_wait(start, &call) != 0) Die(kungfu_last_error());
}

void Verify(std::vector<float>* values) {
  const int size = kungfu_size();
  for (size_t i = 0; i < values->size(); ++i) (*values)[i] = static_cast<float>((i % 11) * (kungfu_rank() + 1));
  Sum(values);
  for (size_t i = 0; i < values->size(); ++i) {
    if ((*values)[i] != static_cast<float>((i % 11) * size * (size + 1) / 2)) {
      Die("a sum of " + std::to_string(values->size()) + " values is wrong at " + std::to_string(i));
    }
  }
}

// The same number on every peer: enough for a median, about a second at most.
int Repetitions(size_t bytes) { return static_cast<int>(std::clamp<size_t>((size_t{400} << 20) / bytes, 11, 1001)); }

double MedianSeconds(std::vector<float>* values) {
  std::fill(values->begin(), values->end(), 0.0f);
  const int repetitions = Repetitions(values->size() * sizeof(float));
  std::vector<double> seconds;
  for (int i = -repetitions / 10; i < repetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    Sum(values);
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
    Verify(&values);
    const double median = MedianSeconds(&values);
    if (kungfu_rank() == 0) report << bytes << ' ' << median << '\n';
  }
  return kungfu_shutdown();
}
