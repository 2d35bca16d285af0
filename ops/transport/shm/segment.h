// Memory that two processes share: a memfd, which has no name in any file system. It vanishes when both have closed it
// or ended, in whatever way. The other process gets its descriptor over a Unix socket.

#pragma once

#include <cstddef>

#include "ops/base/status.h"
#include "ops/base/unique_fd.h"

namespace kungfu {

class Segment {
 public:
  // `size` bytes of zeros, and in `*fd` what the other process needs. They are there from the beginning: touching them
  // cannot fail later.
  static StatusOr<Segment> Create(size_t size, UniqueFd* fd);
  // Opens the segment that another process has created. An error if it is anything but `size` bytes of memory that
  // cannot shrink.
  static StatusOr<Segment> Map(const UniqueFd& fd, size_t size);

  Segment() = default;
  ~Segment();
  Segment(Segment&& other) noexcept { *this = static_cast<Segment&&>(other); }
  Segment& operator=(Segment&& other) noexcept;

  char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace kungfu
