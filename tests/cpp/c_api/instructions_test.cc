// How many instructions a repeated sum takes between peers that look out for each other: not more than is written here,
// and none that calls the system. `make bench-counts` has more of these figures.

#include <signal.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "ops/c_api/kungfu.h"
#include "tests/cpp/c_api/processes.h"
#include "tests/cpp/testing.h"

// In pieces it takes a tenth more, and sanitizers add their own.
#if defined(__x86_64__) && defined(KUNGFU_OPTIMISED_AS_ONE)

namespace kungfu::testing {
namespace {

// The processor interrupts this thread after each instruction while its trap flag is set.
volatile uint64_t instructions = 0;
volatile uint64_t system_calls = 0;

bool IsSystemCall(const uint8_t* code) { return code[0] == 0x0f && code[1] == 0x05; }

// The instructions by which the system tells the time differ from machine to machine.
bool IsOfSystem(uintptr_t place) {
  static const uintptr_t begin = getauxval(AT_SYSINFO_EHDR);
  constexpr uintptr_t kSize = 2 * 4096;
  return begin != 0 && place - begin < kSize;
}

void OnTrap(int, siginfo_t*, void* context) {
  const auto place = static_cast<uintptr_t>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
  if (IsOfSystem(place)) return;
  instructions = instructions + 1;
  if (IsSystemCall(reinterpret_cast<const uint8_t*>(place))) system_calls = system_calls + 1;
}

// Beyond the 128 bytes below the stack that the compiler may use.
#define KF_CHANGE_FLAGS(change) \
  asm volatile("lea -128(%%rsp), %%rsp; pushfq; " change "(%%rsp); popfq; lea 128(%%rsp), %%rsp" ::: "memory", "cc")

template <typename Function>
void Step(const Function& function) {
  KF_CHANGE_FLAGS("orq $0x100, ");
  function();
  KF_CHANGE_FLAGS("andq $~0x100, ");
}

void SumAndWait(const kungfu_span* span) {
  const auto start = [](void* arg, kungfu_done done, void* done_arg) {
    kungfu_options options{};
    options.name = "sum";
    options.dtype = KUNGFU_FLOAT32;
    options.op = KUNGFU_SUM;
    kungfu_all_reduce(static_cast<const kungfu_span*>(arg), 1, &options, done, done_arg);
  };
  EXPECT_EQ(kungfu_wait(start, const_cast<kungfu_span*>(span)), kOk);
}

// The other peer is faster by far: what this one waits for is there. If it is not, as on a busy machine, this one looks
// out for it: so the least count of all sums is that of the sum. After a minute the test gives up.
void CountAndCompare(int rank, uint64_t most) {
  setenv("KUNGFU_SPIN", "1000000", 1);
  struct sigaction action = {};
  action.sa_sigaction = OnTrap;
  action.sa_flags = SA_SIGINFO;
  ASSERT_EQ(sigaction(SIGTRAP, &action, nullptr), 0);
  float value = 0, enough = 0;
  const kungfu_span sum{&value, &value, 1}, verdict{&enough, &enough, 1};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  uint64_t least = UINT64_MAX, calls = 0;
  while (enough == 0) {
    for (int turn = 0; turn < 20; ++turn) {
      value = 1;
      instructions = system_calls = 0;
      if (rank == 0 && turn > 10) {
        Step([&] { SumAndWait(&sum); });
      } else {
        SumAndWait(&sum);
      }
      EXPECT_EQ(value, 2);
      if (instructions == 0 || instructions >= least) continue;
      least = instructions;
      calls = system_calls;
    }
    if (rank == 0) enough = least <= most || std::chrono::steady_clock::now() > deadline ? 1 : 0;
    SumAndWait(&verdict);
  }
  if (rank == 0) {
    EXPECT_EQ(calls, 0u);
    if (least > most) Fail(__FILE__, __LINE__, std::to_string(least) + " instructions");
  }
  EXPECT_EQ(kungfu_shutdown(), 0);
}

KF_TEST(Instructions, OfARepeatedSumOfFourBytes) {
  InPeers(2, [](int rank) { CountAndCompare(rank, 3000); });
}

}  // namespace
}  // namespace kungfu::testing

#endif
