#include "ops/base/cores.h"

#include <sched.h>

namespace kungfu {

int CoresOfThisProcess() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace kungfu
