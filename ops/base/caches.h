// The caches of this processor, as the system names them.

#pragma once

#include <cstddef>

namespace kungfu {

// Bytes of a core's nearest cache for data; 32 KiB, as hardly any has less, where the system does not say.
size_t NearestCache();

}  // namespace kungfu
