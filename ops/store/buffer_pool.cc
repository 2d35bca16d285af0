#include "ops/store/buffer_pool.h"

#include <algorithm>
#include <list>
#include <new>
#include <utility>

#include "ops/base/mutex.h"

namespace kungfu {

struct BufferPool::Spares {
  struct Spare {
    uint64_t size;
    std::unique_ptr<char[]> bytes;
  };

  explicit Spares(size_t most_kept) : most(most_kept) {}

  std::unique_ptr<char[]> Take(uint64_t size) EXCLUDES(mu) {
    MutexLock lock(&mu);
    const auto it = std::find_if(list.begin(), list.end(), [size](const Spare& spare) { return spare.size == size; });
    if (it == list.end()) return nullptr;
    std::unique_ptr<char[]> bytes = std::move(it->bytes);
    list.erase(it);
    return bytes;
  }

  void Put(Spare spare) EXCLUDES(mu) {
    MutexLock lock(&mu);
    list.push_front(std::move(spare));
    if (list.size() > most) list.pop_back();
  }

  const size_t most;
  Mutex mu;
  std::list<Spare> list GUARDED_BY(mu);  // the last that came back first
};

BufferPool::BufferPool(size_t most) : spares_(std::make_shared<Spares>(most)) {}

std::shared_ptr<char> BufferPool::Take(uint64_t size) {
  std::unique_ptr<char[]> bytes = spares_->Take(size);
  if (!bytes) bytes.reset(new (std::nothrow) char[size]);
  if (!bytes) return nullptr;
  return {bytes.release(),
          [spares = spares_, size](char* back) { spares->Put({size, std::unique_ptr<char[]>(back)}); }};
}

}  // namespace kungfu
