#include "ops/transport/shm/segment.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace kungfu {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// A file that grows beyond the limit is not an error but a signal, which ends the process.
bool MayGrowTo(size_t size) {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= size;
}

// What else can be sealed (huge pages) can be lacking when it is touched.
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
  if (!MayGrowTo(size)) return ResourceExhaustedError("the limit of a file's size (ulimit -f) is too small");
  UniqueFd memory(memfd_create("kungfu", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (memory.get() < 0) return ErrnoError(errno, "memfd_create");
  const auto length = static_cast<off_t>(size);
  if (ftruncate(memory.get(), length) != 0 || fcntl(memory.get(), F_ADD_SEALS, kSeals) != 0) {
    return ErrnoError(errno, "memfd");
  }
  if (fallocate(memory.get(), 0, 0, length) != 0) return ErrnoError(errno, "fallocate");
  StatusOr<char*> data = MapAll(memory.get(), size);
  KF_RETURN_IF_ERROR(data.status());
  Segment segment;
  segment.data_ = *data;
  segment.size_ = size;
  *fd = std::move(memory);
  return segment;
}

StatusOr<Segment> Segment::Map(const UniqueFd& fd, size_t size) {
  struct stat info;
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  const bool fixed = seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
  if (!fixed || !IsOrdinaryMemory(fd.get()) || fstat(fd.get(), &info) != 0 ||
      info.st_size != static_cast<off_t>(size)) {
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
