// Threads that do the core's work while they wait for it.

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "ops/c_api/kungfu.h"
#include "tests/cpp/c_api/processes.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

// A sum of one number over the peers.
struct SumCall {
  explicit SumCall(std::string name, float value = 1) : name(std::move(name)), value(value) {}

  void Start(kungfu_done done, void* done_arg) {
    kungfu_options options{};
    options.name = name.c_str();
    options.dtype = KUNGFU_FLOAT32;
    options.op = KUNGFU_SUM;
    const kungfu_span span{&value, &value, 1};
    kungfu_all_reduce(&span, 1, &options, done, done_arg);
  }
  int Wait() {
    return kungfu_wait([](void* self, kungfu_done done, void* arg) { static_cast<SumCall*>(self)->Start(done, arg); },
                       this);
  }
  void Help() {
    kungfu_help([](void* self) { static_cast<SumCall*>(self)->Start(&SumCall::Done, self); },
                [](void* self) { return static_cast<SumCall*>(self)->over.load() ? 1 : 0; }, this, 1);
  }
  static void Done(void* self, int code, const char*) {
    EXPECT_EQ(code, kOk);
    static_cast<SumCall*>(self)->over = true;
  }

  const std::string name;
  float value;
  std::atomic<bool> over{false};
};

KF_TEST(Waiting, AloneThereIsNothingToWaitFor) {
  InProcess({}, [] {
    SumCall sum("x", 7);
    EXPECT_EQ(sum.Wait(), kOk);
    EXPECT_EQ(sum.value, 7);
    SumCall nameless("");
    EXPECT_EQ(nameless.Wait(), kInvalidArgument);
    EXPECT_CONTAINS(kungfu_last_error(), "name");
    SumCall helped("y");
    helped.Help();
    EXPECT_TRUE(helped.over);
  });
}

KF_TEST(Waiting, APeerThatCannotStartSaysWhy) {
  InProcess({{"KUNGFU_SELF", "nonsense"}}, [] {
    EXPECT_EQ(SumCall("x").Wait(), kInvalidArgument);
    EXPECT_CONTAINS(kungfu_last_error(), "KUNGFU_SELF");
  });
}

// Threads that wait, that help and that only call back, all at once.
void ManyWays(int rank) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 300; ++i) {
        SumCall sum("waiting" + std::to_string(t));
        EXPECT_EQ(sum.Wait(), kOk);
        EXPECT_EQ(sum.value, 2);
      }
    });
  }
  threads.emplace_back([] {
    for (int i = 0; i < 300; ++i) {
      SumCall sum("helping");
      sum.Help();
      while (!sum.over) std::this_thread::yield();
      EXPECT_EQ(sum.value, 2);
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(SumCall("end").Wait(), kOk);
  EXPECT_EQ(kungfu_shutdown(), kOk);
}

// What cannot begin may be said to a thread that helps before its call has returned, by itself.
KF_TEST(Waiting, WhoHelpsIsToldAtOnceWhatCannotBegin) {
  InPeers(2, [](int) {
    SumCall nameless("");
    EXPECT_EQ(nameless.Wait(), kInvalidArgument);
    EXPECT_CONTAINS(kungfu_last_error(), "name");
    const auto start = [](void* over) {
      const auto done = [](void* over, int code, const char*) {
        EXPECT_EQ(code, kInvalidArgument);
        *static_cast<std::atomic<bool>*>(over) = true;
      };
      SumCall("").Start(done, over);
    };
    std::atomic<bool> over{false};
    kungfu_help(start, [](void* over) { return static_cast<std::atomic<bool>*>(over)->load() ? 1 : 0; }, &over, 1);
    while (!over) std::this_thread::yield();
    EXPECT_EQ(SumCall("end").Wait(), kOk);
    EXPECT_EQ(kungfu_shutdown(), kOk);
  });
}

KF_TEST(Waiting, ManyThreadsInManyWays) { InPeers(2, ManyWays); }

}  // namespace
}  // namespace kungfu::testing
