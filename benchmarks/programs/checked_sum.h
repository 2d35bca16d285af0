// What the peers of the benchmarks have in common: in-place all-reduces through the C interface, and checked sums.

#pragma once

#include <errno.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "ops/c_api/kungfu.h"

[[noreturn]] inline void Die(const std::string& why) {
  std::fprintf(stderr, "%s: rank %d: %s\n", program_invocation_short_name, kungfu_rank(), why.c_str());
  std::exit(1);
}

// One operation, of however many arrays.
inline void AllReduce(const kungfu_span* spans, int num_spans, kungfu_dtype dtype, kungfu_reduce_op op) {
  kungfu_options options{};
  options.name = "benchmark";
  options.dtype = dtype;
  options.op = op;
  struct Call {
    const kungfu_span* spans;
    int num_spans;
    const kungfu_options* options;
  } call{spans, num_spans, &options};
  const auto start = [](void* arg, kungfu_done done, void* done_arg) {
    const auto* call = static_cast<const Call*>(arg);
    kungfu_all_reduce(call->spans, call->num_spans, call->options, done, done_arg);
  };
  if (kungfu_wait(start, &call) != 0) Die(kungfu_last_error());
}

inline kungfu_span InPlace(void* values, size_t count) { return {values, values, count}; }

// The arrays are of float32.
inline void Sum(const std::vector<kungfu_span>& spans) {
  AllReduce(spans.data(), static_cast<int>(spans.size()), KUNGFU_FLOAT32, KUNGFU_SUM);
}

inline void Verify(const std::vector<kungfu_span>& spans) {
  const int size = kungfu_size();
  for (const kungfu_span& span : spans) {
    auto* const values = static_cast<float*>(span.recv);
    for (size_t i = 0; i < span.count; ++i) values[i] = static_cast<float>((i % 11) * (kungfu_rank() + 1));
  }
  Sum(spans);
  for (const kungfu_span& span : spans) {
    const auto* const values = static_cast<const float*>(span.recv);
    for (size_t i = 0; i < span.count; ++i) {
      if (values[i] != static_cast<float>((i % 11) * size * (size + 1) / 2)) {
        Die("a sum of " + std::to_string(span.count) + " values is wrong at " + std::to_string(i));
      }
    }
  }
}
