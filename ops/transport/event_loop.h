// One thread that waits for sockets, timers and posted functions, and runs them one at a time.
//
// All protocol state of a peer (connections, mailboxes, pending operations) is touched by this thread only, and so
// needs no locks. Methods that must run on it end in OnLoop.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/base/deadline.h"
#include "ops/base/mutex.h"
#include "ops/base/status.h"
#include "ops/transport/socket/unique_fd.h"

namespace kungfu {

// Told about its file descriptor. Not owned by the loop.
class FdHandler {
 public:
  virtual ~FdHandler() = default;
  // `events` is what epoll reported. May watch, modify and unwatch any descriptor, its own included, and may delete
  // itself after it has unwatched its descriptor.
  virtual void OnEventsOnLoop(uint32_t events) = 0;
};

class EventLoop {
 public:
  using TimerId = std::pair<Deadline, uint64_t>;

  // Starts the thread. kResourceExhausted: the system has no descriptor or thread for it.
  static StatusOr<std::unique_ptr<EventLoop>> Start();
  ~EventLoop();  // Close() and Join()
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Runs `task` on the loop, after what was posted before it. Any thread; never blocks, never runs it inside the
  // call. After Close() tasks already posted still run; later ones are dropped and destroyed.
  // Returns whether it was accepted.
  bool Post(std::function<void()> task) EXCLUDES(mu_);

  bool InLoop() const { return std::this_thread::get_id() == loop_thread_; }

  // `events`: EPOLLIN, EPOLLOUT, level-triggered. One handler per descriptor.
  void WatchOnLoop(int fd, uint32_t events, FdHandler* handler);
  void ModifyOnLoop(int fd, uint32_t events);
  // After it returns the handler is not called again, not even for events already fetched.
  void UnwatchOnLoop(int fd);

  TimerId RunAtOnLoop(Deadline when, std::function<void()> task);
  // A timer that has run or was cancelled is ignored.
  void CancelTimerOnLoop(const TimerId& id);

  // Lets the loop end when what was posted has run. Any thread, also the loop's; does not block.
  void Close() EXCLUDES(mu_);
  // REQUIRES: not on the loop; Close() was called.
  void Join();

 private:
  using Tasks = std::vector<std::function<void()>>;

  EventLoop(UniqueFd epoll, UniqueFd wake) : epoll_(std::move(epoll)), wake_(std::move(wake)) {}

  // The generation tells a descriptor from an earlier one with the same number, whose events may still be on their way.
  struct Watch {
    FdHandler* handler;
    uint32_t generation;
  };

  void Run();
  void Wake();
  // How long epoll may wait, in milliseconds; from now on Post wakes it.
  int PrepareToWait() EXCLUDES(mu_);
  // Moves what was posted into `*tasks`. Returns whether more may come.
  bool TakePosted(Tasks* tasks) EXCLUDES(mu_);
  void Dispatch(uint64_t token, uint32_t events);
  void RunTimers();
  int MillisecondsToNextTimer() const;

  const UniqueFd epoll_;
  const UniqueFd wake_;

  Mutex mu_;
  Tasks posted_ GUARDED_BY(mu_);
  bool waiting_ GUARDED_BY(mu_) = false;
  bool closed_ GUARDED_BY(mu_) = false;

  std::unordered_map<int, Watch> watches_;           // loop only
  uint32_t next_generation_ = 1;                     // loop only
  std::map<TimerId, std::function<void()>> timers_;  // loop only
  uint64_t next_timer_ = 0;                          // loop only

  std::thread thread_;           // starts when everything else exists
  std::thread::id loop_thread_;  // set before anything can be posted, and never again: any thread may read it
};

}  // namespace kungfu
