#include "ops/base/caches.h"

#include <unistd.h>

namespace kungfu {

size_t NearestCache() {
  static const long named = sysconf(_SC_LEVEL1_DCACHE_SIZE);
  return named > 0 ? static_cast<size_t>(named) : size_t{32} << 10;
}

}  // namespace kungfu
