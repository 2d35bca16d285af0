// Memory that other processes of this host can map: a memfd of fixed size. It has no name in any file system, so
// nothing is left of it when the processes that hold it have ended, however they ended.
//
// Another process opens it through /proc/<pid>/fd. The system allows that to processes of the same user that can see
// the process by that number. It trusts the memory only if the secret of the process that made it is inside: two
// containers may have processes of the same number.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ops/base/status.h"

namespace kungfu {

// The data that another process needs to open this memory, sent over a trusted connection. Plain bytes.
struct SharedMemoryAddress {
  int32_t pid = 0;
  int32_t fd = -1;    // of that process
  uint64_t size = 0;  // 0: there is none
  std::array<uint8_t, 16> secret{};
};

// Any thread; the bytes are for their users to coordinate.
class SharedMemory {
 public:
  SharedMemory() = default;
  // `size` bytes of zeros, at a page boundary; a page takes room when it is first touched.
  static StatusOr<SharedMemory> Create(const char* name, size_t size);
  // The memory of another process, to read and to write. Its size cannot change: touching it never fails.
  static StatusOr<SharedMemory> Open(const SharedMemoryAddress& address);
  ~SharedMemory();
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;

  char* data() const { return data_; }
  size_t size() const { return size_; }
  // REQUIRES: it was created here.
  const SharedMemoryAddress& address() const { return address_; }

  // All of this is for whole pages within the memory.
  // The addresses stay and get other memory, zeros that no other process can reach. `data` is one of them.
  void Withdraw(char* data, size_t size);
  // From now on no other process sees the writes of this one. For a child after fork; safe in a handler of it.
  void MakePrivate();

  static size_t PageSize();

 private:
  SharedMemoryAddress address_;
  int fd_ = -1;           // only where it was created
  char* data_ = nullptr;  // behind the page with the secret
  size_t size_ = 0;
};

}  // namespace kungfu
