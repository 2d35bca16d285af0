// Waits for sockets, shared memory, timers and posted functions, and runs them one at a time. It runs on a thread of
// its own, or on one that would otherwise wait for the loop (Help). Whichever it is, it is "the loop" while it does so.
//
// All protocol state of a peer (connections, mailboxes, pending operations) is touched by the loop only, and so needs
// no locks. Methods that must run on it end in OnLoop.
//
// A thread without work, but with something to poll, looks on for a moment before it sleeps (lookout.h): to wake a
// thread costs more than most operations do. The loop's own thread does not: the thread that left it the work has other
// work, and wants the core.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/base/deadline.h"
#include "ops/base/mutex.h"
#include "ops/base/status.h"
#include "ops/base/unique_fd.h"
#include "ops/transport/lookout.h"

namespace kungfu {

// Told about its file descriptor. Not owned by the loop.
class FdHandler {
 public:
  virtual ~FdHandler() = default;
  // `events` is what epoll reported. May watch, modify and unwatch any descriptor, its own included, and may delete
  // itself after it has unwatched its descriptor.
  virtual void OnEventsOnLoop(uint32_t events) = 0;
};

// Something that another process changes without telling the system: it is looked at in each round. When the loop goes
// to sleep the other process is asked to wake it, through a descriptor that is watched. Not owned by the loop.
class Pollable {
 public:
  virtual ~Pollable() = default;
  // Does a bounded amount of the pending work. Returns whether there was anything. May remove and delete itself.
  virtual bool PollOnLoop() = 0;
  // The loop is about to sleep: from now on the other side wakes it. Returns false if there is something to do.
  virtual bool SleepOnLoop() = 0;
  // The loop is awake: the other side need not wake it.
  virtual void WakeOnLoop() = 0;
};

class EventLoop {
 public:
  using TimerId = std::pair<Deadline, uint64_t>;

  // Starts the thread. `patience`: of helpers. kResourceExhausted: the system has no descriptor or thread for it.
  static StatusOr<std::unique_ptr<EventLoop>> Start(const Patience& patience = {});
  ~EventLoop();  // Close() and Join()
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Runs `task` on the loop, after the tasks that were posted before. Any thread; never blocks, never runs it inside
  // the call. After Close() tasks already posted still run; later ones are dropped and destroyed. Returns whether it
  // was accepted.
  bool Post(std::function<void()> task) EXCLUDES(mu_);

  // Whether this thread may run its next task at once instead of posting it: it has just begun to help, and nothing was
  // posted before. Returns true once for each Help: the task that runs then may post, too.
  bool MayRunAtOnce();

  // When the loop last looked at the clock: not long ago.
  Clock::time_point NowOnLoop() const { return now_; }

  bool InLoop() const { return std::this_thread::get_id() == running_.load(std::memory_order_relaxed); }

  // For a thread that is about to wait: calls `start`, which may post at little cost. Then it runs the loop until
  // `until` is true, `longest` has passed, or there was no work for as long as it looks on. Meanwhile the loop's own
  // thread sleeps; if it is at work, this one waits for its turn for a moment. `until` must be safe to call from either
  // place. A caller that gives a `longest` has other work than to wait: where peers share cores it does not look on,
  // and it keeps its core for who wakes it (cores.h). On the loop: only calls `start`.
  void Help(const std::function<void()>& start, const std::function<bool()>& until, std::optional<Seconds> longest)
      EXCLUDES(turn_, mu_);

  // `events`: EPOLLIN, EPOLLOUT, level-triggered. One handler per descriptor.
  void WatchOnLoop(int fd, uint32_t events, FdHandler* handler);
  void ModifyOnLoop(int fd, uint32_t events);
  // After it returns the handler is not called again, not even for events already fetched.
  void UnwatchOnLoop(int fd);

  void AddPollableOnLoop(Pollable* pollable);
  // After it returns the pollable is not called again.
  void RemovePollableOnLoop(Pollable* pollable);

  TimerId RunAtOnLoop(Deadline when, std::function<void()> task);
  // A timer that has run or was cancelled is ignored.
  void CancelTimerOnLoop(const TimerId& id);

  // Lets the loop end when all posted tasks have run. Any thread, also the loop's; does not block.
  void Close() EXCLUDES(mu_);
  // REQUIRES: not on the loop; Close() was called.
  void Join();

 private:
  using Tasks = std::vector<std::function<void()>>;

  EventLoop(const Patience& patience, UniqueFd epoll, UniqueFd wake)
      : patience_(patience), epoll_(std::move(epoll)), wake_(std::move(wake)) {}

  // The generation tells a descriptor from an earlier one with the same number, whose events may still be on their way.
  struct Watch {
    FdHandler* handler;
    uint32_t generation;
  };

  // The own thread.
  void Run();
  bool IsOpen() EXCLUDES(mu_);
  void Finish() REQUIRES(turn_) EXCLUDES(mu_);

  // From Enter to Leave this thread is the loop.
  bool TryEnter() TRY_ACQUIRE(true, turn_);
  void Enter() REQUIRES(turn_);
  void Leave() REQUIRES(turn_) { running_ = std::thread::id(); }
  // Rounds of a helper that has entered; it leaves.
  void Serve(const std::function<bool()>& until, Deadline last, const Patience& patience) RELEASE(turn_) EXCLUDES(mu_);

  // Does the pending work, except timers. Returns whether there was anything.
  bool Round() REQUIRES(turn_) EXCLUDES(mu_);
  // Rounds until `until`, until there was nothing to do for as long as `patience` says, or until `last`.
  template <typename Until>
  void Rounds(const Until& until, Deadline last, const Patience& patience) REQUIRES(turn_) EXCLUDES(mu_);
  // From now on posted tasks, and events, wake the own thread. Returns false if there is something to do.
  bool PrepareToSleep() REQUIRES(turn_);
  void Wake();

  void TakePosted() REQUIRES(turn_) EXCLUDES(mu_);
  void Dispatch(uint64_t token, uint32_t events) REQUIRES(turn_);
  bool RunTimers(Clock::time_point now) REQUIRES(turn_);
  bool Poll() REQUIRES(turn_);
  Deadline NextTimer() const REQUIRES(turn_);

  const Patience patience_;
  const UniqueFd epoll_;
  const UniqueFd wake_;

  Mutex turn_;                              // the thread that holds it is the loop
  std::atomic<std::thread::id> running_{};  // that thread
  std::atomic<bool> own_waits_{false};      // the own thread wants its turn,
  std::atomic<int> helpers_wait_{0};        // or these do
  bool over_ GUARDED_BY(turn_) = false;     // the own thread has ended
  Deadline alarm_ GUARDED_BY(turn_){};      // when the own thread wakes by itself
  Lookout lookout_ GUARDED_BY(turn_);
  Clock::time_point now_{};        // loop only
  bool starting_ = false;          // loop only; a helper has entered, and has run nothing yet
  Tasks taken_ GUARDED_BY(turn_);  // of what was posted: what runs in this round

  Mutex mu_;
  Tasks posted_ GUARDED_BY(mu_);
  bool closed_ GUARDED_BY(mu_) = false;
  // Who posts writes the first and reads the second; who goes to sleep does the opposite. So one sees the other, as all
  // four are sequentially consistent. The loop takes the lock only if there is something to take.
  std::atomic<bool> any_posted_{false};
  std::atomic<bool> asleep_{false};  // the own thread

  std::unordered_map<int, Watch> watches_;           // loop only
  uint32_t next_generation_ = 1;                     // loop only
  std::vector<Pollable*> pollables_;                 // loop only; null where one was removed while all are polled
  bool polling_ = false;                             // loop only
  std::map<TimerId, std::function<void()>> timers_;  // loop only
  uint64_t next_timer_ = 0;                          // loop only

  std::thread thread_;  // starts when everything else exists
};

}  // namespace kungfu
