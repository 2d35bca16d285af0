#include "ops/memory/arena.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <iterator>

#include "ops/base/logging.h"

namespace kungfu {

// The arenas of this process, for the handler that runs in a forked child. The child has one thread, and its locks may
// have been held by others: the handler touches nothing but memory maps and atomics.
class ArenasAtFork {
 public:
  static constexpr int kMost = 64;

  static void Add(Arena* arena) {
    static const int registered = pthread_atfork(nullptr, nullptr, InChild);
    (void)registered;
    Replace(nullptr, arena);
  }
  static void Remove(Arena* arena) { Replace(arena, nullptr); }

 private:
  static void Replace(Arena* from, Arena* to) {
    for (std::atomic<Arena*>& place : places()) {
      Arena* expected = from;
      if (place.compare_exchange_strong(expected, to)) return;
    }
    KF_LOG(WARNING) << "more than " << kMost << " arenas: a forked child shares the memory of this one";
  }
  static void InChild() {
    for (std::atomic<Arena*>& place : places()) {
      if (Arena* arena = place) arena->AfterForkInChild();
    }
  }
  static std::atomic<Arena*> (&places()) [kMost] {
    static std::atomic<Arena*> places[kMost];
    return places;
  }
};

StatusOr<std::unique_ptr<Arena>> Arena::Create(size_t bytes) {
  const size_t size = bytes - bytes % SharedMemory::PageSize();
  if (size == 0) return InvalidArgumentError("an arena of " + std::to_string(bytes) + " bytes is less than a page");
  StatusOr<SharedMemory> memory = SharedMemory::Create("kungfu-arena", size);
  if (!memory.ok()) return memory.status();
  return std::unique_ptr<Arena>(new Arena(std::move(*memory)));
}

Arena::Arena(SharedMemory memory) : memory_(std::move(memory)), begin_(memory_.data()) {
  MutexLock lock(&mu_);
  statistics_.size = memory_.size();
  AddFree(0, memory_.size());
  ArenasAtFork::Add(this);
}

Arena::~Arena() { ArenasAtFork::Remove(this); }

// The smallest block that is large enough, and among equals the first.
void* Arena::Allocate(size_t bytes) {
  if (forked_ || bytes > memory_.size()) return nullptr;
  const size_t page = SharedMemory::PageSize();
  const uint64_t size = std::max<uint64_t>(1, (bytes + page - 1) / page) * page;
  MutexLock lock(&mu_);
  const auto best = free_by_size_.lower_bound({size, 0});
  if (best == free_by_size_.end()) return nullptr;
  const auto [found, offset] = *best;
  RemoveFree(free_.find(offset));
  if (found > size) AddFree(offset + size, found - size);
  used_[offset] = size;
  statistics_.in_use += size;
  statistics_.most_used = std::max(statistics_.most_used, statistics_.in_use);
  return begin_ + offset;
}

size_t Arena::SizeOf(const void* block) const {
  if (!Owns(block)) return 0;
  if (forked_) return 1;
  MutexLock lock(&mu_);
  const auto used = used_.find(static_cast<const char*>(block) - begin_);
  return used == used_.end() ? 0 : used->second;
}

size_t Arena::Free(void* block) {
  if (!Owns(block)) return 0;
  if (forked_) return 1;
  MutexLock lock(&mu_);
  const auto used = used_.find(static_cast<char*>(block) - begin_);
  KF_CHECK(used != used_.end()) << "freed what was not allocated";
  const auto [offset, size] = *used;
  used_.erase(used);
  statistics_.in_use -= size;
  if (IsWithdrawn(offset, size)) {
    memory_.Withdraw(begin_ + offset, size);  // the system gets back what it has taken
    withdrawn_.erase(withdrawn_.lower_bound(offset), withdrawn_.lower_bound(offset + size));
    statistics_.retired += size;
  } else {
    AddFree(offset, size);
  }
  return size;
}

std::optional<uint64_t> Arena::Find(const void* data, size_t bytes) const {
  if (!Owns(data) || forked_) return std::nullopt;
  const uint64_t offset = static_cast<const char*>(data) - begin_;
  if (bytes > memory_.size() - offset) return std::nullopt;
  if (any_withdrawn_) {
    MutexLock lock(&mu_);
    if (IsWithdrawn(offset, bytes)) return std::nullopt;
  }
  return offset;
}

void Arena::Withdraw(void* data, size_t bytes) {
  KF_CHECK(Owns(data)) << "withdrawn what is not here";
  char* const begin = static_cast<char*>(data);
  memory_.Withdraw(begin, bytes);
  MutexLock lock(&mu_);
  withdrawn_[begin - begin_] = std::max<uint64_t>(withdrawn_[begin - begin_], bytes);
  any_withdrawn_ = true;
}

Arena::Statistics Arena::statistics() const {
  MutexLock lock(&mu_);
  return statistics_;
}

// Neighbours become one block.
void Arena::AddFree(uint64_t offset, uint64_t size) {
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + size == next->first) {
    size += next->second;
    const auto joined = next++;
    RemoveFree(joined);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      offset = previous->first;
      size += previous->second;
      RemoveFree(previous);
    }
  }
  free_[offset] = size;
  free_by_size_.insert({size, offset});
}

void Arena::RemoveFree(Blocks::iterator block) {
  free_by_size_.erase({block->second, block->first});
  free_.erase(block);
}

// Withdrawn ranges may overlap: tensors of several failed operations may lie in one block.
bool Arena::IsWithdrawn(uint64_t offset, uint64_t size) const {
  return std::any_of(withdrawn_.begin(), withdrawn_.end(), [&](const auto& range) {
    return range.first < offset + size && offset < range.first + range.second;
  });
}

void Arena::AfterForkInChild() {
  forked_ = true;
  memory_.MakePrivate();
}

}  // namespace kungfu
