// Memory that is used again: fresh pages of a large blob cost more than filling them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace kungfu {

// Any thread. Its buffers may outlive it.
class BufferPool {
 public:
  // Keeps up to `most` buffers for later.
  explicit BufferPool(size_t most);

  // `size` bytes, of any content; they come back with the last reference. Null if there is no memory.
  std::shared_ptr<char> Take(uint64_t size);

 private:
  struct Spares;
  const std::shared_ptr<Spares> spares_;
};

}  // namespace kungfu
