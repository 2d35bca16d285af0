#include "ops/memory/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace kungfu {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// A file that grows beyond the limit is not an error but a signal, which ends the process.
bool MayGrowTo(size_t size) {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= size;
}

}  // namespace

StatusOr<int> CreateMemoryFile(const char* name, size_t size) {
  const std::string what = std::string("shared memory '") + name + "' of " + std::to_string(size) + " bytes";
  if (!MayGrowTo(size)) {
    return ResourceExhaustedError(what + ": the limit of a file's size (ulimit -f) is too small");
  }
  const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return ErrnoError(errno, what);
  if (ftruncate(fd, static_cast<off_t>(size)) != 0 || fcntl(fd, F_ADD_SEALS, kSeals) != 0) {
    const Status status = ErrnoError(errno, what);
    close(fd);
    return status;
  }
  return fd;
}

bool IsMemoryFile(int fd, size_t size) {
  struct stat info;
  const int seals = fcntl(fd, F_GET_SEALS);
  const bool fixed = seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
  return fixed && fstat(fd, &info) == 0 && info.st_size == static_cast<off_t>(size);
}

}  // namespace kungfu
