// TensorFlow's memory for large tensors on the CPU, out of the core's shared memory: where it lies there, the host's
// peers reduce it without copies. Small tensors, and those that find no room there, come from the system as before.

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <optional>
#include <string>

#include "ops/tensorflow/kernel_util.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/allocator_registry.h"

namespace kungfu::kernels {
namespace {

// Smaller tensors are not worth their pages, and cost little to copy.
constexpr size_t kLeastShared = 64 << 10;
// The least size of shared blocks.
constexpr size_t kPage = 4096;
// Above TensorFlow's own, which have 100 and 200.
constexpr int kPriority = 1000;

void* Allocate(size_t alignment, size_t size) {
  if (size >= kLeastShared && alignment <= kPage) {
    if (void* block = kungfu_shared_allocate(size)) return block;
  }
  void* block = nullptr;
  const size_t aligned = std::max(alignment, sizeof(void*));
  return posix_memalign(&block, aligned, std::max<size_t>(size, 1)) == 0 ? block : nullptr;
}

// Returns the size of the block that was.
size_t Free(void* block) {
  if (const size_t size = kungfu_shared_free(block)) return size;
  const size_t size = malloc_usable_size(block);
  std::free(block);
  return size;
}

class SharedAllocator : public tensorflow::Allocator {
 public:
  std::string Name() override { return "kungfu_shared"; }

  void* AllocateRaw(size_t alignment, size_t size) override {
    void* block = Allocate(alignment, size);
    if (block == nullptr) return nullptr;
    const int64_t taken = static_cast<int64_t>(AllocatedSizeSlow(block));
    ++allocations_;
    Raise(&peak_, in_use_ += taken);
    Raise(&largest_, taken);
    return block;
  }

  void DeallocateRaw(void* block) override {
    if (block != nullptr) in_use_ -= static_cast<int64_t>(Free(block));
  }

  size_t AllocatedSizeSlow(const void* block) const override {
    const size_t shared = kungfu_shared_size(block);
    return shared > 0 ? shared : malloc_usable_size(const_cast<void*>(block));
  }

  std::optional<tensorflow::AllocatorStats> GetStats() override {
    tensorflow::AllocatorStats stats;
    stats.num_allocs = allocations_;
    stats.bytes_in_use = in_use_;
    stats.peak_bytes_in_use = peak_;
    stats.largest_alloc_size = largest_;
    return stats;
  }

  bool ClearStats() override {
    allocations_ = 0;
    peak_ = in_use_.load();
    largest_ = 0;
    return true;
  }

  tensorflow::AllocatorMemoryType GetMemoryType() const override {
    return tensorflow::AllocatorMemoryType::kHostPageable;
  }

 private:
  static void Raise(std::atomic<int64_t>* most, int64_t value) {
    int64_t before = *most;
    while (before < value && !most->compare_exchange_weak(before, value)) {
    }
  }

  std::atomic<int64_t> allocations_{0}, in_use_{0}, peak_{0}, largest_{0};
};

// The memory on which TensorFlow builds allocators of its own, if it does.
class SharedSubAllocator : public tensorflow::SubAllocator {
 public:
  SharedSubAllocator() : SubAllocator({}, {}) {}

  void* Alloc(size_t alignment, size_t size, size_t* received) override {
    void* block = Allocate(alignment, size);
    *received = size;
    if (block != nullptr) VisitAlloc(block, tensorflow::port::kNUMANoAffinity, size);
    return block;
  }
  void Free(void* block, size_t size) override {
    VisitFree(block, tensorflow::port::kNUMANoAffinity, size);
    kernels::Free(block);
  }
  bool SupportsCoalescing() const override { return false; }
  tensorflow::AllocatorMemoryType GetMemoryType() const override {
    return tensorflow::AllocatorMemoryType::kHostPageable;
  }
};

class SharedAllocatorFactory : public tensorflow::AllocatorFactory {
 public:
  tensorflow::Allocator* CreateAllocator() override { return new SharedAllocator; }
  tensorflow::SubAllocator* CreateSubAllocator(int) override { return new SharedSubAllocator; }
};

// Whether TensorFlow has chosen its allocator, after which it ends the process if another is offered. It has no
// accessor; the arguments of an explicit instantiation may name private members.
using Registry = tensorflow::AllocatorFactoryRegistry;
bool HasChosen(const Registry& registry);
template <bool Registry::* first_alloc_made>
struct Chosen {
  friend bool HasChosen(const Registry& registry) { return registry.*first_alloc_made; }
};
template struct Chosen<&Registry::first_alloc_made_>;

}  // namespace
}  // namespace kungfu::kernels

// 1: from now on large tensors lie in shared memory. 0: there is none. -1: it is too late. In both nothing has changed.
// REQUIRES: called once, and no other thread uses TensorFlow.
extern "C" KUNGFU_EXPORT int kungfu_share_tensors() {
  auto* registry = tensorflow::AllocatorFactoryRegistry::singleton();
  void* probe = kungfu_shared_allocate(1);
  if (probe == nullptr) return 0;
  kungfu_shared_free(probe);
  if (kungfu::kernels::HasChosen(*registry)) return -1;
  registry->Register(__FILE__, __LINE__, "kungfu_shared", kungfu::kernels::kPriority,
                     new kungfu::kernels::SharedAllocatorFactory);
  return 1;
}
