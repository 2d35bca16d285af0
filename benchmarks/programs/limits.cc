// What two processes could do at best: bare loops over shared memory that spin while they wait.
//
//   benchmark_limits memcpy|zero-copy|copy-in|read REPORT BYTES...
//
// memcpy: each process copies its own data, and nobody else's. zero-copy: each adds one half straight from both
// processes' memory into both. copy-in: each copies its own data into shared memory first, adds one half from there,
// and copies the other one's result. read: nothing is shared; each has the kernel read one half out of the other
// process, block by block, adds it, and has it read the other one's result. Writes "BYTES SECONDS" to REPORT for each
// size.

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

namespace {

struct Shared {
  alignas(64) std::atomic<long> arrived[2][16];
  pid_t processes[2];
  float* own[2];  // within each process
};

// Stays in the cache.
constexpr size_t kBlock = (256 << 10) / sizeof(float);

float* MapFloats(size_t count, int kind) {
  void* memory = mmap(nullptr, count * sizeof(float), PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return static_cast<float*>(memory);
}

class Process {
 public:
  Process(Shared* shared, int me, float* const (&both)[2], size_t count)
      : shared_(shared), me_(me), mine_(both[me]), theirs_(both[1 - me]), half_(count / 2), own_(nullptr) {
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
  float *const mine_, *const theirs_;
  const size_t half_;
  float* own_;
  float block_[kBlock];
};

using Sum = void (Process::*)();

Sum SumOf(const std::string& kind) {
  if (kind == "memcpy") return &Process::Copy;
  if (kind == "zero-copy") return &Process::ZeroCopy;
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
  const pid_t child = ForkPair();
  const int me = child == 0;
  std::ofstream report;
  if (me == 0) report.open(argv[2]);
  for (int i = 3; i < argc; ++i) {
    const size_t bytes = std::stoul(argv[i]);
    Process process(shared, me, both, bytes / sizeof(float));
    const double median = MedianSeconds(bytes, [&] { process.Meet(); }, [&] { (process.*sum)(); });
    if (me == 0) report << bytes << ' ' << median << '\n';
  }
  if (me == 0) waitpid(child, nullptr, 0);
  return 0;
}
