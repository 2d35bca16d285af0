#include "ops/base/instructions.h"

#include <atomic>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace kungfu {
namespace {

std::atomic<Instructions>& Used() {
  static std::atomic<Instructions> used{AvailableInstructions().back()};
  return used;
}

#if defined(__x86_64__)
// Asked of the processor itself: clang's __builtin_cpu_supports did not know the name for a long time.
bool HasF16c() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C) != 0;
}
#endif

}  // namespace

const char* Name(Instructions instructions) {
  switch (instructions) {
    case Instructions::kBaseline:
      return "baseline";
    case Instructions::kAvx2:
      return "avx2";
    case Instructions::kAvx512:
      return "avx512";
  }
  return "";
}

std::vector<Instructions> AvailableInstructions() {
  std::vector<Instructions> available = {Instructions::kBaseline};
#if defined(__x86_64__)
  // Whoever has the first has the others, unless a virtual machine hides them.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c()) {
    available.push_back(Instructions::kAvx2);
  }
  // The first processors with AVX-512, which lack VBMI2, slow their clock down for it.
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (available.size() > 1 && has_avx512 && __builtin_cpu_supports("avx512vbmi2"))
    available.push_back(Instructions::kAvx512);
#endif
  return available;
}

Instructions UsedInstructions() { return Used().load(std::memory_order_relaxed); }

void UseInstructions(Instructions instructions) { Used().store(instructions, std::memory_order_relaxed); }

}  // namespace kungfu
