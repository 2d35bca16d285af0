// libbenchmark_counting.so: stands before the functions of the C library that it counts.

#include "benchmarks/programs/counting.h"

#include <dlfcn.h>
#include <sys/resource.h>
#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstring>

namespace {

std::atomic<uint64_t> allocations{0}, clock_reads{0}, copied{0};

void Count(std::atomic<uint64_t>* number, uint64_t more = 1) { number->fetch_add(more, std::memory_order_relaxed); }

}  // namespace

extern "C" {

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  Count(&allocations);
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  Count(&allocations);
  return __libc_calloc(count, size);
}
void* realloc(void* block, size_t size) {
  Count(&allocations);
  return __libc_realloc(block, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  Count(&allocations);
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** block, size_t alignment, size_t size) {
  Count(&allocations);
  *block = __libc_memalign(alignment, size);
  return *block == nullptr ? 12 /* ENOMEM */ : 0;
}

void* memcpy(void* __restrict to, const void* __restrict from, size_t size) {
  Count(&copied, size);
  return std::memmove(to, from, size);
}

int clock_gettime(clockid_t clock, timespec* time) {
  static const auto real = reinterpret_cast<int (*)(clockid_t, timespec*)>(dlsym(RTLD_NEXT, "clock_gettime"));
  Count(&clock_reads);
  return real(clock, time);
}

void benchmark_count(Counted* counted) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  *counted = {allocations, clock_reads, copied, static_cast<uint64_t>(usage.ru_nvcsw + usage.ru_nivcsw)};
}

}  // extern "C"
