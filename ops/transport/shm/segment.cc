#include "ops/transport/shm/segment.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "ops/memory/memory_file.h"

namespace kungfu {
namespace {

// Other memory that can be sealed (huge pages) may be missing when it is touched.
bool IsOrdinaryMemory(int fd) {
  struct statfs info;
  return fstatfs(fd, &info) == 0 && info.f_type == TMPFS_MAGIC;
}

StatusOr<char*> MapAll(int fd, size_t size) {
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return ErrnoError(errno, "mmap");
  // A child that a program forks has no use for it, and would keep it.
  madvise(data, size, MADV_DONTFORK);
  return static_cast<char*>(data);
}

}  // namespace

StatusOr<Segment> Segment::Create(size_t size, UniqueFd* fd) {
  const StatusOr<int> file = CreateMemoryFile("kungfu", size);
  KF_RETURN_IF_ERROR(file.status());
  UniqueFd memory(*file);
  if (fallocate(memory.get(), 0, 0, static_cast<off_t>(size)) != 0) return ErrnoError(errno, "fallocate");
  StatusOr<char*> data = MapAll(memory.get(), size);
  KF_RETURN_IF_ERROR(data.status());
  Segment segment;
  segment.data_ = *data;
  segment.size_ = size;
  *fd = std::move(memory);
  return segment;
}

StatusOr<Segment> Segment::Map(const UniqueFd& fd, size_t size) {
  if (!IsMemoryFile(fd.get(), size) || !IsOrdinaryMemory(fd.get())) {
    return InvalidArgumentError("what it has sent is not a segment of " + std::to_string(size) + " bytes");
  }
  StatusOr<char*> data = MapAll(fd.get(), size);
  KF_RETURN_IF_ERROR(data.status());
  Segment segment;
  segment.data_ = *data;
  segment.size_ = size;
  return segment;
}

Segment::~Segment() {
  if (data_ != nullptr) munmap(data_, size_);
}

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace kungfu
