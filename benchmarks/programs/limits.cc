// What two processes could do at best: bare loops over shared memory that spin while they wait.
//
//   benchmark_limits memcpy|zero-copy|elsewhere|kept|copy-in|read REPORT BYTES...
//
// memcpy: each process copies its own data, and nobody else's. zero-copy: each adds one half straight from both
// processes' memory into both. elsewhere: the same, into other memory of both past the caches; its results are the next
// operands. kept: as zero-copy, and the operands are copied past the caches first. copy-in: each copies its own data
// into shared memory first, adds one half from there, and copies the other one's result. read: nothing is shared; each
// has the kernel read one half out of the other process, block by block, adds it, and has it read the other one's
// result. Writes "BYTES SECONDS" to REPORT for each size. Of elsewhere and kept, sizes are multiples of 1 KiB.

#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "benchmarks/programs/pair.h"
#include "benchmarks/programs/timing.h"
#include "ops/base/copy.h"

namespace {

struct Shared {
  alignas(64) std::atomic<long> arrived[2][16];
  pid_t processes[2];
  float* own[2];  // within each process
};

// Stays in the cache.
constexpr size_t kBlock = (256 << 10) / sizeof(float);
// Some lines, which are read before any of them is stored.
constexpr size_t kPiece = 512 / sizeof(float);

float* MapFloats(size_t count, int kind) {
  void* memory = mmap(nullptr, count * sizeof(float), PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return static_cast<float*>(memory);
}

class Process {
 public:
  Process(Shared* shared, int me, float* const (&both)[2], float* const (&others)[2], size_t count)
      : shared_(shared),
        me_(me),
        mine_(both[me]),
        theirs_(both[1 - me]),
        half_(count / 2),
        own_(nullptr),
        results_{others[me], others[1 - me]} {
    own_ = MapFloats(count, MAP_PRIVATE);
    std::fill(own_, own_ + count, 0.0f);
    std::fill(mine_, mine_ + count, 0.0f);
    shared_->processes[me_] = getpid();
    shared_->own[me_] = own_;
  }
  ~Process() { munmap(own_, 2 * half_ * sizeof(float)); }

  void Meet() {
    const long round = shared_->arrived[me_][0].load(std::memory_order_relaxed) + 1;
    shared_->arrived[me_][0].store(round, std::memory_order_release);
    while (shared_->arrived[1 - me_][0].load(std::memory_order_acquire) < round) {
    }
  }

  void Copy() { std::memcpy(mine_, own_, 2 * half_ * sizeof(float)); }

  void ZeroCopy() {
    AddToBoth(mine_ + me_ * half_, theirs_ + me_ * half_);
    Meet();
  }

  void Elsewhere() {
    const size_t here = me_ * half_;
    alignas(64) float sums[kPiece];
    for (size_t i = here; i < here + half_; i += kPiece) {
      for (size_t k = 0; k < kPiece; ++k) sums[k] = mine_[i + k] + theirs_[i + k];
      for (float* to : results_) PastCaches(to + i, sums);
    }
    kungfu::OrderPastCaches();
    Meet();
    Swap();
  }

  void Kept() {
    const size_t here = me_ * half_;
    for (size_t i = here; i < here + half_; i += kPiece) {
      PastCaches(results_[0] + i, mine_ + i);
      PastCaches(results_[1] + i, theirs_ + i);
      for (size_t k = i; k < i + kPiece; ++k) mine_[k] = theirs_[k] = mine_[k] + theirs_[k];
    }
    kungfu::OrderPastCaches();
    Meet();
  }

  void CopyIn() {
    Copy();
    Meet();
    float* const here = mine_ + me_ * half_;
    AddTo(here, theirs_ + me_ * half_, half_);
    Meet();
    std::memcpy(own_ + me_ * half_, here, half_ * sizeof(float));
    std::memcpy(own_ + (1 - me_) * half_, theirs_ + (1 - me_) * half_, half_ * sizeof(float));
    Meet();
  }

  void Read() {
    const size_t here = me_ * half_, there = half_ - here;
    for (size_t begin = 0; begin < half_; begin += kBlock) {
      const size_t count = std::min(kBlock, half_ - begin);
      ReadTheirs(here + begin, block_, count);
      AddTo(own_ + here + begin, block_, count);
    }
    Meet();
    ReadTheirs(there, own_ + there, half_);
    Meet();
  }

 private:
  void AddToBoth(float* __restrict a, float* __restrict b) const {
    for (size_t i = 0; i < half_; ++i) a[i] = b[i] = a[i] + b[i];
  }
  static void PastCaches(float* to, const float* from) {
    constexpr size_t kLines = kPiece * sizeof(float) / kungfu::kLine;
    kungfu::CopyLinesPastCaches(reinterpret_cast<char*>(to), reinterpret_cast<const char*>(from), kLines);
  }
  void Swap() {
    std::swap(mine_, results_[0]);
    std::swap(theirs_, results_[1]);
  }
  void AddTo(float* __restrict a, const float* __restrict b, size_t count) const {
    for (size_t i = 0; i < count; ++i) a[i] += b[i];
  }
  void ReadTheirs(size_t from, float* to, size_t count) const {
    const iovec here = {to, count * sizeof(float)};
    const iovec there = {shared_->own[1 - me_] + from, count * sizeof(float)};
    const auto size = static_cast<ssize_t>(here.iov_len);
    if (process_vm_readv(shared_->processes[1 - me_], &here, 1, &there, 1, 0) != size) std::abort();
  }

  Shared* const shared_;
  const int me_;
  float *mine_, *theirs_;
  const size_t half_;
  float* own_;
  float* results_[2];
  float block_[kBlock];
};

using Sum = void (Process::*)();

Sum SumOf(const std::string& kind) {
  if (kind == "memcpy") return &Process::Copy;
  if (kind == "zero-copy") return &Process::ZeroCopy;
  if (kind == "elsewhere") return &Process::Elsewhere;
  if (kind == "kept") return &Process::Kept;
  if (kind == "copy-in") return &Process::CopyIn;
  return &Process::Read;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 1;
  const Sum sum = SumOf(argv[1]);
  size_t most = 0;
  for (int i = 3; i < argc; ++i) most = std::max<size_t>(most, std::stoul(argv[i]));
  auto* shared = reinterpret_cast<Shared*>(MapFloats(sizeof(Shared), MAP_SHARED));
  float* const both[2] = {MapFloats(most / 4, MAP_SHARED), MapFloats(most / 4, MAP_SHARED)};
  float* const others[2] = {MapFloats(most / 4, MAP_SHARED), MapFloats(most / 4, MAP_SHARED)};
  const pid_t child = ForkPair();
  const int me = child == 0;
  std::ofstream report;
  if (me == 0) report.open(argv[2]);
  for (int i = 3; i < argc; ++i) {
    const size_t bytes = std::stoul(argv[i]);
    Process process(shared, me, both, others, bytes / sizeof(float));
    const double median = MedianSeconds(bytes, [&] { process.Meet(); }, [&] { (process.*sum)(); });
    if (me == 0) report << bytes << ' ' << median << '\n';
  }
  if (me == 0) waitpid(child, nullptr, 0);
  return 0;
}
