// What the peers of the benchmarks have in common: in-place all-reduces through the C interface, and a checked sum.

#pragma once

#include <errno.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "ops/c_api/kungfu.h"

[[noreturn]] inline void Die(const std::string& why) {
  std::fprintf(stderr, "%s: rank %d: %s\n", program_invocation_short_name, kungfu_rank(), why.c_str());
  std::exit(1);
}

inline void AllReduce(void* values, size_t count, kungfu_dtype dtype, kungfu_reduce_op op) {
  kungfu_options options{};
  options.name = "benchmark";
  options.dtype = dtype;
  options.op = op;
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

inline void Sum(float* values, size_t count) { AllReduce(values, count, KUNGFU_FLOAT32, KUNGFU_SUM); }

inline void Verify(float* values, size_t count) {
  const int size = kungfu_size();
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>((i % 11) * (kungfu_rank() + 1));
  Sum(values, count);
  for (size_t i = 0; i < count; ++i) {
    if (values[i] != static_cast<float>((i % 11) * size * (size + 1) / 2)) {
      Die("a sum of " + std::to_string(count) + " values is wrong at " + std::to_string(i));
    }
  }
}
