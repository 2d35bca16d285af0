#include "ops/transport/event_loop.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "tests/cpp/testing.h"
#include "tests/cpp/transport/harness.h"

namespace {

thread_local int yields = 0;

}  // namespace

// In place of the system's, which tells nobody how often it was called.
int sched_yield() noexcept {
  ++yields;
  return static_cast<int>(syscall(SYS_sched_yield));
}

namespace kungfu {
namespace {

using testing::Guarded;
using testing::NewLoop;
using testing::RunOnLoop;

struct Pipe {
  Pipe() {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    read_end = ends[0];
    write_end = ends[1];
  }
  ~Pipe() {
    close(read_end);
    close(write_end);
  }
  void Write() const { EXPECT_EQ(write(write_end, "x", 1), 1); }

  int read_end, write_end;
};

class Handler : public FdHandler {
 public:
  explicit Handler(std::function<void(uint32_t)> body) : body_(std::move(body)) {}
  void OnEventsOnLoop(uint32_t events) override { body_(events); }

 private:
  const std::function<void(uint32_t)> body_;
};

KF_TEST(EventLoop, RunsTasksInOrderFromManyThreads) {
  constexpr int kThreads = 4, kTasks = 2000;
  std::array<int, kThreads> last{};
  int total = 0;
  bool ordered = true, in_loop = true;
  {
    const std::unique_ptr<EventLoop> loop = NewLoop();
    EXPECT_FALSE(loop->InLoop());
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 1; i <= kTasks; ++i) {
          EXPECT_TRUE(loop->Post([&, t, i] {
            ordered &= last[t] == i - 1;
            in_loop &= loop->InLoop();
            last[t] = i;
            ++total;
          }));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(total, kThreads * kTasks);
  EXPECT_TRUE(ordered);
  EXPECT_TRUE(in_loop);
}

KF_TEST(EventLoop, NeverRunsATaskInsidePost) {
  bool ran = false;
  const std::unique_ptr<EventLoop> loop = NewLoop();
  RunOnLoop(loop.get(), [&] {
    loop->Post([&ran] { ran = true; });
    EXPECT_FALSE(ran);
  });
  RunOnLoop(loop.get(), [&] { EXPECT_TRUE(ran); });
}

KF_TEST(EventLoop, RunsWhatWasPostedBeforeCloseAndDropsTheRest) {
  const std::unique_ptr<EventLoop> loop = NewLoop();
  Guarded<bool> go(false);
  std::atomic<int> ran{0};
  auto dropped = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = dropped;
  loop->Post([&] { EXPECT_TRUE(go.Await([](bool value) { return value; })); });
  for (int i = 0; i < 10; ++i) loop->Post([&] { ++ran; });
  loop->Close();
  EXPECT_FALSE(loop->Post([dropped] {}));
  dropped.reset();
  EXPECT_TRUE(watch.expired());
  go.Set(true);
  loop->Join();
  EXPECT_EQ(ran, 10);
}

KF_TEST(EventLoop, MayBeClosedByItsOwnTask) {
  const std::unique_ptr<EventLoop> loop = NewLoop();
  loop->Post([&] {
    loop->Close();
    EXPECT_FALSE(loop->Post([] {}));
  });
  loop->Join();
}

KF_TEST(EventLoop, TellsOfDescriptors) {
  const std::unique_ptr<EventLoop> loop = NewLoop();
  Pipe pipe;
  Guarded<int> bytes(0);
  Handler handler([&](uint32_t events) {
    EXPECT_EQ(events & EPOLLIN, uint32_t{EPOLLIN});
    char byte;
    EXPECT_EQ(read(pipe.read_end, &byte, 1), 1);
    bytes.Update([](int& n) { ++n; });
  });
  RunOnLoop(loop.get(), [&] { loop->WatchOnLoop(pipe.read_end, EPOLLIN, &handler); });
  pipe.Write();
  EXPECT_TRUE(bytes.Await([](int n) { return n == 1; }));
  RunOnLoop(loop.get(), [&] { loop->ModifyOnLoop(pipe.read_end, 0); });
  pipe.Write();
  RunOnLoop(loop.get(), [&] {});
  EXPECT_EQ(bytes.Get(), 1);
  RunOnLoop(loop.get(), [&] { loop->ModifyOnLoop(pipe.read_end, EPOLLIN); });
  EXPECT_TRUE(bytes.Await([](int n) { return n == 2; }));
  RunOnLoop(loop.get(), [&] { loop->UnwatchOnLoop(pipe.read_end); });
}

// Both descriptors are ready in one round. Whoever comes first ends the other, closes its descriptor and watches a new
// one that has the same number: neither the old handler nor the new one may see the old event.
KF_TEST(EventLoop, ForgetsEventsOfADescriptorThatIsUnwatched) {
  const std::unique_ptr<EventLoop> loop = NewLoop();
  Pipe pipes[2], silent;
  Guarded<int> calls{0};
  int calls_to_new = 0;
  Handler new_handler([&](uint32_t) { ++calls_to_new; });
  std::unique_ptr<Handler> handlers[2];
  const auto first_ends_second = [&](int first) {
    const int second = 1 - first;
    calls.Update([](int& count) { ++count; });
    for (const Pipe& pipe : pipes) loop->UnwatchOnLoop(pipe.read_end);
    handlers[second].reset();
    EXPECT_EQ(dup2(silent.read_end, pipes[second].read_end), pipes[second].read_end);
    loop->WatchOnLoop(pipes[second].read_end, EPOLLIN, &new_handler);
  };
  RunOnLoop(loop.get(), [&] {
    for (int i = 0; i < 2; ++i) {
      handlers[i] = std::make_unique<Handler>([&, i](uint32_t) { first_ends_second(i); });
      loop->WatchOnLoop(pipes[i].read_end, EPOLLIN, handlers[i].get());
      pipes[i].Write();
    }
  });
  EXPECT_TRUE(calls.Await([](int count) { return count > 0; }));
  RunOnLoop(loop.get(), [] {});
  loop->Close();
  loop->Join();
  EXPECT_EQ(calls.Get(), 1);
  EXPECT_EQ(calls_to_new, 0);
}

KF_TEST(EventLoop, RunsTimersInOrderAndNotBeforeTheirTime) {
  const std::unique_ptr<EventLoop> loop = NewLoop();
  Guarded<std::vector<int>> order({});
  RunOnLoop(loop.get(), [&] {
    const Clock::time_point now = Clock::now();
    const auto add = [&](int id, Deadline when) {
      return loop->RunAtOnLoop(when, [&order, id, when] {
        EXPECT_TRUE(Clock::now() >= when);
        order.Update([id](std::vector<int>& ids) { ids.push_back(id); });
      });
    };
    add(3, now + std::chrono::milliseconds(30));
    add(1, now + std::chrono::milliseconds(10));
    add(2, now + std::chrono::milliseconds(10));
    add(0, Deadline());
    loop->CancelTimerOnLoop(add(9, now + std::chrono::milliseconds(5)));
    add(8, Deadline::max());
  });
  EXPECT_TRUE(order.Await([](const std::vector<int>& ids) { return ids.size() == 4; }));
  EXPECT_TRUE(order.Get() == std::vector<int>({0, 1, 2, 3}));
}

KF_TEST(EventLoop, ATimerMayCancelAnotherAndItself) {
  const std::unique_ptr<EventLoop> loop = NewLoop();
  Guarded<bool> done(false);
  EventLoop::TimerId first, second;
  RunOnLoop(loop.get(), [&] {
    first = loop->RunAtOnLoop(Deadline(), [&] {
      loop->CancelTimerOnLoop(first);
      loop->CancelTimerOnLoop(second);
    });
    second = loop->RunAtOnLoop(Deadline(), [] { EXPECT_TRUE(false); });
    loop->RunAtOnLoop(Deadline(), [&] { done.Set(true); });
  });
  EXPECT_TRUE(done.Await([](bool value) { return value; }));
}

KF_TEST(EventLoop, TimersThatRenewThemselvesLeaveTimeForOthers) {
  std::function<void()> renew;  // outlives the loop, which runs it to the end
  const std::unique_ptr<EventLoop> loop = NewLoop();
  renew = [&renew, loop = loop.get()] { loop->RunAtOnLoop(Deadline(), renew); };
  loop->Post(renew);
  for (int i = 0; i < 100; ++i) RunOnLoop(loop.get(), [] {});
}

KF_TEST(EventLoop, ReleasesItsTimersOnItsThread) {
  const std::unique_ptr<EventLoop> loop = NewLoop();
  struct Probe {
    ~Probe() { EXPECT_TRUE(loop->InLoop()); }
    EventLoop* loop;
  };
  loop->Post([&] {
    const std::shared_ptr<Probe> probe(new Probe{loop.get()});
    loop->RunAtOnLoop(Deadline::max(), [probe] {});
  });
  loop->Close();
  loop->Join();
}

std::unique_ptr<EventLoop> NewLoopThatLooks(const Patience& patience) {
  StatusOr<std::unique_ptr<EventLoop>> loop = EventLoop::Start(patience);
  EXPECT_OK(loop.status());
  return std::move(*loop);
}

constexpr Patience kPatiences[] = {
    {}, {Seconds(50e-6), Seconds(0)}, {Seconds(0.01), Seconds(0)}, {Seconds(0.01), Seconds(50e-6)}};

// Helpers, posters, descriptors and timers at once: everything happens, once, one at a time, and on the loop.
KF_TEST(EventLoop, RunsOnThreadsThatHelp) {
  for (const Patience& patience : kPatiences) {
    const std::unique_ptr<EventLoop> loop = NewLoopThatLooks(patience);
    constexpr int kThreads = 4, kTasks = 500;
    int total = 0, on_helper = 0;
    bool in_loop = true, alone = true, inside = false;
    Pipe pipe;
    Guarded<int> bytes(0), timers(0);
    Handler handler([&](uint32_t) {
      char byte;
      EXPECT_EQ(read(pipe.read_end, &byte, 1), 1);
      bytes.Update([](int& n) { ++n; });
    });
    RunOnLoop(loop.get(), [&] { loop->WatchOnLoop(pipe.read_end, EPOLLIN, &handler); });
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        const std::thread::id self = std::this_thread::get_id();
        for (int i = 0; i < kTasks; ++i) {
          std::atomic<bool> ran{false};
          const auto task = [&] {
            alone &= !std::exchange(inside, true);
            in_loop &= loop->InLoop();
            ++total;
            if (std::this_thread::get_id() == self) ++on_helper;
            if (i % 50 == 0) loop->RunAtOnLoop(After(Seconds(0.001)), [&] { timers.Update([](int& n) { ++n; }); });
            inside = false;
            ran = true;
          };
          if (i % 100 == 0) pipe.Write();
          loop->Help([&] { EXPECT_TRUE(loop->Post(task)); }, [&] { return ran.load(); }, std::nullopt);
          while (!ran) std::this_thread::yield();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(bytes.Await([](int n) { return n == kThreads * kTasks / 100; }));
    EXPECT_TRUE(timers.Await([](int n) { return n == kThreads * kTasks / 50; }));
    RunOnLoop(loop.get(), [&] {
      loop->UnwatchOnLoop(pipe.read_end);
      EXPECT_EQ(total, kThreads * kTasks);
      EXPECT_TRUE(in_loop);
      EXPECT_TRUE(alone);
      EXPECT_GE(on_helper, 1);
    });
  }
}

// What a helper leaves behind wakes the loop's own thread.
KF_TEST(EventLoop, GoesOnWhenAHelperHasLeft) {
  for (const Patience& patience : kPatiences) {
    const std::unique_ptr<EventLoop> loop = NewLoopThatLooks(patience);
    for (int i = 0; i < 20; ++i) {
      Guarded<bool> fired(false), posted(false);
      loop->Help(
          [&] {
            loop->Post([&] {
              loop->RunAtOnLoop(After(Seconds(0.002)), [&] {
                loop->Post([&] { posted.Set(true); });
                fired.Set(true);
              });
            });
          },
          [] { return false; }, Seconds(0));
      EXPECT_TRUE(fired.Await([](bool value) { return value; }));
      EXPECT_TRUE(posted.Await([](bool value) { return value; }));
    }
  }
}

KF_TEST(EventLoop, OnlyWhatAHelperBeginsWithMayRunAtOnce) {
  const std::unique_ptr<EventLoop> loop = NewLoop();
  EXPECT_FALSE(loop->MayRunAtOnce());
  RunOnLoop(loop.get(), [&] { EXPECT_FALSE(loop->MayRunAtOnce()); });
  const auto ends = [] { return true; };
  bool may = false, may_again = true, may_after_a_post = true, may_later = true;
  while (!may) {  // the own thread may be at work
    loop->Help([&] { may = loop->MayRunAtOnce(), may_again = loop->MayRunAtOnce(); }, ends, std::nullopt);
  }
  EXPECT_FALSE(may_again);
  loop->Help(
      [&] {
        loop->Post([] {});
        may_after_a_post = loop->MayRunAtOnce();
      },
      ends, std::nullopt);
  EXPECT_FALSE(may_after_a_post);
  loop->Help([&] { loop->Post([&] { may_later = loop->MayRunAtOnce(); }); }, [&] { return !may_later; }, std::nullopt);
  RunOnLoop(loop.get(), [] {});
  EXPECT_FALSE(may_later);
}

KF_TEST(EventLoop, HelpsNobodyOnTheLoopAndAfterTheEnd) {
  const std::unique_ptr<EventLoop> loop = NewLoop();
  bool called = false, asked = false;
  const auto start = [&] { called = true; };
  const auto until = [&] { return asked = true; };
  RunOnLoop(loop.get(), [&] { loop->Help(start, until, Seconds(1)); });
  EXPECT_TRUE(called);
  EXPECT_FALSE(asked);
  loop->Close();
  loop->Join();
  called = false;
  loop->Help(start, until, Seconds(1));
  EXPECT_TRUE(called);
}

// Only those that have other work do (cores.h).
KF_TEST(EventLoop, HelpersKeepTheirCoreForWhoWakesThem) {
  const std::unique_ptr<EventLoop> loop = NewLoop();
  const auto policy_after = [&](std::optional<Seconds> longest) {
    int policy = -1;
    std::thread([&] {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(sched_getcpu(), &one);
      EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
      loop->Help([] {}, [] { return true; }, longest);
      policy = sched_getscheduler(0);
    }).join();
    return policy;
  };
  EXPECT_EQ(policy_after(Seconds(1)), SCHED_BATCH);
  EXPECT_EQ(policy_after(std::nullopt), SCHED_OTHER);
}

// Has something to do so many times; then it is woken by a descriptor.
class Work : public Pollable {
 public:
  Work(EventLoop* loop, int times) : loop_(loop), times_(times) {}
  bool PollOnLoop() override {
    EXPECT_TRUE(loop_->InLoop());
    if (polls.load() == times_) return false;
    ++polls;
    if (polls == times_ && remove_at_end) loop_->RemovePollableOnLoop(this);
    return true;
  }
  bool SleepOnLoop() override {
    EXPECT_TRUE(loop_->InLoop());
    return polls == times_;
  }
  void WakeOnLoop() override { EXPECT_TRUE(loop_->InLoop()); }

  std::atomic<int> polls{0};
  bool remove_at_end = false;

 private:
  EventLoop* const loop_;
  const int times_;
};

KF_TEST(EventLoop, PollsAsLongAsThereIsWork) {
  const std::unique_ptr<EventLoop> loop = NewLoop();
  Work a(loop.get(), 1000), b(loop.get(), 500), c(loop.get(), 10);
  b.remove_at_end = true;
  RunOnLoop(loop.get(), [&] {
    for (Work* work : {&a, &b, &c}) loop->AddPollableOnLoop(work);
  });
  while (a.polls < 1000 || b.polls < 500 || c.polls < 10) RunOnLoop(loop.get(), [] {});
  RunOnLoop(loop.get(), [&] {
    for (Work* work : {&a, &c}) loop->RemovePollableOnLoop(work);
  });
}

// Where there is never anything to do.
class Nothing : public Pollable {
 public:
  bool PollOnLoop() override {
    ++polls;
    return false;
  }
  bool SleepOnLoop() override { return true; }
  void WakeOnLoop() override {}

  std::atomic<int> polls{0};
};

KF_TEST(EventLoop, WhoHelpsForAMomentLeavesWhereCoresAreScarce) {
  constexpr int kMany = 100;
  const std::unique_ptr<EventLoop> loop = NewLoopThatLooks({Seconds(60), Seconds(0)});
  Nothing nothing;
  RunOnLoop(loop.get(), [&] { loop->AddPollableOnLoop(&nothing); });
  const auto polls_of = [&](std::optional<Seconds> longest) {
    nothing.polls = 0;
    loop->Help([] {}, [&] { return nothing.polls > kMany; }, longest);
    return nothing.polls.load();
  };
  while (polls_of(std::nullopt) < kMany) {  // the own thread may be at work
  }
  EXPECT_LE(polls_of(Seconds(60)), kMany);
  RunOnLoop(loop.get(), [&] { loop->RemovePollableOnLoop(&nothing); });
}

// The process that is awaited may need this very core.
KF_TEST(EventLoop, WhoSharesCoresGivesThemAwayAfterEachLook) {
  constexpr int kMany = 1000;
  for (const Seconds stays : {Seconds(0), Seconds(1000)}) {
    const std::unique_ptr<EventLoop> loop = NewLoopThatLooks({Seconds(1000), stays});
    Nothing nothing;
    RunOnLoop(loop.get(), [&] { loop->AddPollableOnLoop(&nothing); });
    do {  // the own thread may be at work
      nothing.polls = 0;
      yields = 0;
      loop->Help([] {}, [&] { return nothing.polls > kMany; }, std::nullopt);
    } while (nothing.polls <= kMany);
    if (stays.count() > 0) {
      EXPECT_EQ(yields, 0);
    } else {
      EXPECT_GE(yields, kMany / 2);
    }
    RunOnLoop(loop.get(), [&] { loop->RemovePollableOnLoop(&nothing); });
  }
}

}  // namespace
}  // namespace kungfu
