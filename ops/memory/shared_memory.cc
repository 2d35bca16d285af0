#include "ops/memory/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "ops/base/hmac.h"
#include "ops/base/logging.h"
#include "ops/memory/memory_file.h"

namespace kungfu {
namespace {

// All of it, the first page included; null if it cannot be mapped. In large pages, if the system gives any to shared
// memory (transparent_hugepage/shmem_enabled; most do not): sums of 16 MiB take a tenth less.
char* Map(int fd, size_t size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (memory == MAP_FAILED) return nullptr;
  madvise(memory, size, MADV_HUGEPAGE);
  return static_cast<char*>(memory);
}

constexpr char kApart[] = ": are the processes in different containers, or of users with different rights?";

}  // namespace

size_t SharedMemory::PageSize() {
  static const size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

StatusOr<SharedMemory> SharedMemory::Create(const char* name, size_t size) {
  const size_t total = PageSize() + size;
  const StatusOr<int> file = CreateMemoryFile(name, total);
  KF_RETURN_IF_ERROR(file.status());
  SharedMemory memory;
  memory.fd_ = *file;
  char* data = Map(memory.fd_, total);
  if (data == nullptr) {
    return ErrnoError(errno, "mapping shared memory '" + std::string(name) + "' of " + std::to_string(size) + " bytes");
  }
  memory.data_ = data + PageSize();
  memory.size_ = size;
  memory.address_ = {getpid(), memory.fd_, size, {}};
  FillRandom(memory.address_.secret.data(), memory.address_.secret.size());
  std::memcpy(data, memory.address_.secret.data(), memory.address_.secret.size());
  return memory;
}

StatusOr<SharedMemory> SharedMemory::Open(const SharedMemoryAddress& address) {
  if (address.size == 0) return FailedPreconditionError("it has no shared memory");
  const std::string path = "/proc/" + std::to_string(address.pid) + "/fd/" + std::to_string(address.fd);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) {
    const Status status = ErrnoError(errno, path);
    const bool apart = status.code() == Code::kNotFound || status.code() == Code::kPermissionDenied;
    return Status(status.code(), status.message() + (apart ? kApart : ""));
  }
  const size_t total = PageSize() + address.size;
  const bool fits = IsMemoryFile(fd, total);
  char* data = fits ? Map(fd, total) : nullptr;
  const Status status = fits && data == nullptr ? ErrnoError(errno, path) : OkStatus();
  close(fd);
  KF_RETURN_IF_ERROR(status);
  if (data == nullptr || std::memcmp(data, address.secret.data(), address.secret.size()) != 0) {
    if (data != nullptr) munmap(data, total);
    return FailedPreconditionError(path + " is not its memory" + kApart);
  }
  SharedMemory memory;
  memory.data_ = data + PageSize();
  memory.size_ = address.size;
  return memory;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_ - PageSize(), PageSize() + size_);
  if (fd_ >= 0) close(fd_);
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(address_, other.address_);
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void SharedMemory::Withdraw(char* data, size_t size) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
  KF_CHECK(mmap(data, size, PROT_READ | PROT_WRITE, flags, -1, 0) == data) << std::strerror(errno);
  // The system gets its pages back. A process that still writes to them there gets new pages, which no other process
  // sees.
  const off_t offset = static_cast<off_t>(PageSize() + (data - data_));
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, static_cast<off_t>(size));
}

void SharedMemory::MakePrivate() {
  if (data_ == nullptr) return;
  mmap(data_ - PageSize(), PageSize() + size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd_, 0);
}

}  // namespace kungfu
