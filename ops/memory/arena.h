// An allocator over shared memory: tensors that lie in it can be read and written by the host's other peers where they
// are. Bounded: when it is full callers take ordinary memory. Blocks are whole pages of their own; pages of a freed
// block are used again.
//
// Memory that another process may still write to can be withdrawn (Withdraw). It stays usable, but is not shared any
// more: a write of that process has no effect on the next owner.
//
// A child after fork cannot allocate here, and only the child sees its own writes. It is no copy as of other memory.
// Bytes that the child has not written may change when the parent writes there, and withdrawn bytes are zeros in the
// child.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "ops/base/bytes.h"
#include "ops/base/mutex.h"
#include "ops/base/status.h"
#include "ops/memory/shared_memory.h"

namespace kungfu {

// Any thread.
class Arena {
 public:
  // Takes room only as it is used. At most `bytes`, rounded down to pages.
  static StatusOr<std::unique_ptr<Arena>> Create(size_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // At a page boundary; null if there is no room, or in a forked child.
  void* Allocate(size_t bytes) EXCLUDES(mu_);
  // The bytes that a block has taken; 0 if it is not of this arena. A forked child knows only that it is not 0.
  size_t SizeOf(const void* block) const EXCLUDES(mu_);
  // The same, and the block is free if it is of this arena.
  size_t Free(void* block) EXCLUDES(mu_);

  // Whether an address lies in here.
  bool Owns(const void* address) const {
    const char* at = static_cast<const char*>(address);
    return at >= begin_ && at < begin_ + memory_.size();
  }
  // The offset of the bytes from the beginning of the memory; nothing if not all of them are shared.
  std::optional<uint64_t> Find(const void* data, size_t bytes) const EXCLUDES(mu_);
  // No other process can reach these bytes any more. They are zeros afterwards. When their block is freed, it is not
  // used again.
  // REQUIRES: whole pages, of a block.
  void Withdraw(void* data, size_t bytes) EXCLUDES(mu_);

  const SharedMemoryAddress& address() const { return memory_.address(); }
  MutableBytes bytes() const { return {begin_, memory_.size()}; }

  struct Statistics {
    uint64_t size = 0;    // the bound
    uint64_t in_use = 0;  // of allocated blocks
    uint64_t most_used = 0;
    uint64_t retired = 0;  // withdrawn and freed
  };
  Statistics statistics() const EXCLUDES(mu_);

 private:
  explicit Arena(SharedMemory memory);

  using Blocks = std::map<uint64_t, uint64_t>;  // offset → size

  void AddFree(uint64_t offset, uint64_t size) REQUIRES(mu_);
  void RemoveFree(Blocks::iterator block) REQUIRES(mu_);
  bool IsWithdrawn(uint64_t offset, uint64_t size) const REQUIRES(mu_);
  void AfterForkInChild();

  SharedMemory memory_;
  char* const begin_;
  std::atomic<bool> forked_{false};  // this is a child's copy

  mutable Mutex mu_;
  Blocks free_ GUARDED_BY(mu_);
  std::set<std::pair<uint64_t, uint64_t>> free_by_size_ GUARDED_BY(mu_);  // (size, offset)
  std::unordered_map<uint64_t, uint64_t> used_ GUARDED_BY(mu_);           // offset → size
  Blocks withdrawn_ GUARDED_BY(mu_);
  std::atomic<bool> any_withdrawn_{false};
  Statistics statistics_ GUARDED_BY(mu_);

  friend class ArenasAtFork;
};

}  // namespace kungfu
