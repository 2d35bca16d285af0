#include "ops/store/buffer_pool.h"

#include <algorithm>
#include <list>
#include <new>
#include <utility>

#include "ops/base/mutex.h"

namespace kungfu {
namespace {

// A model's blobs come in one size for each dtype: one of each is filled while another is sent.
constexpr size_t kMaxSpares = 4;

}  // namespace

struct BufferPool::Spares {
  struct Spare {
    uint64_t size;
    std::unique_ptr<char[]> bytes;
  };

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
    if (list.size() > kMaxSpares) list.pop_back();
  }

  Mutex mu;
  std::list<Spare> list GUARDED_BY(mu);  // the last that came back first
};

BufferPool::BufferPool() : spares_(std::make_shared<Spares>()) {}

std::shared_ptr<char> BufferPool::Take(uint64_t size) {
  std::unique_ptr<char[]> bytes = spares_->Take(size);
  if (!bytes) bytes.reset(new (std::nothrow) char[size]);
  if (!bytes) return nullptr;
  return {bytes.release(),
          [spares = spares_, size](char* back) { spares->Put({size, std::unique_ptr<char[]>(back)}); }};
}

}  // namespace kungfu
