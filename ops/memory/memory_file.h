// Files in memory that processes share: memfds whose size is sealed, so that touching them never fails.

#pragma once

#include <cstddef>

#include "ops/base/status.h"

namespace kungfu {

// A descriptor that the caller closes, of so many bytes of zeros, which take room when they are first touched. An error
// where the limit of a file's size is too small: to go beyond it would end the process.
StatusOr<int> CreateMemoryFile(const char* name, size_t size);
// Whether the descriptor is a memory file of that size.
bool IsMemoryFile(int fd, size_t size);

}  // namespace kungfu
