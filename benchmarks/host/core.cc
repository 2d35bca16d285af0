// One peer: in-place float32 sums through the C interface, in shared or in ordinary memory.
//
//   host_core REPORT shared|ordinary BYTES...
//
// Each sum is checked before it is timed. Rank 0 writes "BYTES SECONDS" to REPORT for each size.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "benchmarks/host/timing.h"
#include "ops/c_api/kungfu.h"

namespace {

[[noreturn]] void Die(const std::string& why) {
  std::fprintf(stderr, "host_core: rank %d: %s\n", kungfu_rank(), why.c_str());
  std::exit(1);
}

void Sum(float* values, size_t count) {
  kungfu_options options{};
  options.name = "benchmark";
  options.dtype = KUNGFU_FLOAT32;
  options.op = KUNGFU_SUM;
  const kungfu_span span{values, values, count};
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

void Verify(float* values, size_t count) {
  const int size = kungfu_size();
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>((i % 11) * (kungfu_rank() + 1));
  Sum(values, count);
  for (size_t i = 0; i < count; ++i) {
    if (values[i] != static_cast<float>((i % 11) * size * (size + 1) / 2)) Die("wrong at " + std::to_string(i));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) Die("usage: host_core REPORT shared|ordinary BYTES...");
  if (kungfu_init() != 0) Die(kungfu_last_error());
  const bool shared = std::strcmp(argv[2], "shared") == 0;
  std::ofstream report;
  if (kungfu_rank() == 0) report.open(argv[1]);
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
