// What a process calls and copies, for a program that was started with libbenchmark_counting.so in LD_PRELOAD.

#pragma once

#include <cstdint>

// Of all threads, so far.
struct Counted {
  uint64_t allocations;       // of the heap
  uint64_t clock_reads;       // clock_gettime
  uint64_t copied;            // bytes, by memcpy
  uint64_t context_switches;  // of threads that waited, or that others took the core from
};

extern "C" void benchmark_count(Counted* counted);
