// How often an operation that is repeated asks for memory: not once more than is written here.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/collective/placed.h"
#include "tests/cpp/testing.h"

namespace {

std::atomic<uint64_t> allocations{0};

}  // namespace

// Sanitizers have their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// GCC warns of mismatched memory where it inlines only one of new and delete.
__attribute__((noinline)) void* operator new(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* const memory = std::malloc(std::max<size_t>(size, 1))) return memory;
  throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace kungfu::testing {
namespace {

// Lets threads go on when all have come.
class Turnstile {
 public:
  explicit Turnstile(int threads) : threads_(threads) {}

  void Pass() {
    const uint64_t turn = turn_;
    if (++came_ == threads_) {
      came_ = 0;
      ++turn_;
    }
    while (turn_ == turn) std::this_thread::yield();
  }

 private:
  const int threads_;
  std::atomic<int> came_{0};
  std::atomic<uint64_t> turn_{0};
};

// As a caller of kungfu_wait does it.
void AllReduceAndWait(Peer* peer, const std::string& name, const Span& span) {
  std::atomic<bool> over{false};
  Operation operation = MakeOperation(Kind::kAllReduce, name);
  operation.spans = {span};
  operation.done = [&over](const Status& status) {
    EXPECT_OK(status);
    over = true;
  };
  const auto start = [&] { peer->StartOperation(std::move(operation)); };
  const auto until = [&] { return over.load(); };
  peer->Help(std::ref(start), std::ref(until), std::nullopt);
  while (!over) std::this_thread::yield();
}

// By all peers together, for a sum in place of so many bytes that has run before. It is the least of the turns until
// one asked for no more than `enough`, or a minute was over: a message that comes before it is asked for takes memory,
// and so does a loop that another thread runs, which on a busy machine is nearly always.
uint64_t AllocationsOf(Cluster* cluster, uint64_t bytes, Place place, uint64_t enough) {
  constexpr int kAtLeast = 20;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  uint64_t least = UINT64_MAX;
  std::atomic<bool> over{false};
  Turnstile turnstile(cluster->size());
  const auto run = [&](int rank) {
    Buffer buffer(cluster->arena(rank), place, std::vector<char>(bytes));
    float* const data = reinterpret_cast<float*>(buffer.data());
    for (int turn = 1; !over; ++turn) {
      turnstile.Pass();
      const uint64_t before = allocations;
      turnstile.Pass();
      AllReduceAndWait(cluster->peer(rank), "x", {data, data, bytes / sizeof(float)});
      turnstile.Pass();
      if (rank == 0) {
        least = std::min<uint64_t>(least, allocations - before);
        over = turn >= kAtLeast && (least <= enough || std::chrono::steady_clock::now() > deadline);
      }
      turnstile.Pass();
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < cluster->size(); ++rank) threads.emplace_back(run, rank);
  for (std::thread& thread : threads) thread.join();
  return least;
}

ClusterOptions Over(const std::string& transport) {
  ClusterOptions options;
  options.transport = transport;
  options.arena_bytes = 1 << 26;
  options.direct_bytes = 4 << 10;
  options.own_cores = true;
  options.spin = 100000;
  return options;
}

KF_TEST(Allocations, OfARepeatedSum) {
  struct Row {
    const char* transport;
    uint64_t bytes;
    Place place;
    uint64_t allocations;  // of two peers
  };
  constexpr Row kRows[] = {
      {"shm", 4, Place::kOrdinary, 0},
      {"unix", 4, Place::kOrdinary, 0},
      {"tcp", 4, Place::kOrdinary, 0},
      {"shm", 64 << 10, Place::kShared, 0},
  };
  for (const Row& row : kRows) {
    Cluster cluster(2, Over(row.transport));
    const uint64_t counted = AllocationsOf(&cluster, row.bytes, row.place, row.allocations);
    if (counted == row.allocations) continue;
    Fail(__FILE__, __LINE__,
         std::string(row.transport) + ", " + std::to_string(row.bytes) + " bytes: " + std::to_string(counted) +
             " allocations, not " + std::to_string(row.allocations));
  }
}

}  // namespace
}  // namespace kungfu::testing

#endif
