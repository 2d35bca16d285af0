// One thread that waits for sockets, timers and posted functions, and runs them one at a time.
//
// All protocol state of a peer (connections, mailboxes, pending operations) is touched by this thread only, and so
// needs no locks. Methods that must run on it end in OnLoop.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/base/deadline.h"
#include "ops/base/mutex.h"

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

  EventLoop();   // starts the thread
  ~EventLoop();  // Close() and Join()
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Runs `task` on the loop, after what was posted before it. Any thread; never blocks, never runs it inside the
  // call. After Close() tasks already posted still run; later ones are dropped and destroyed.
  // Returns whether it was accepted.
  bool Post(std::function<void()> task) EXCLUDES(mu_);

  bool InLoop() const { return std::this_thread::get_id() == thread_.get_id(); }

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
  void Run();
  void Wake();
  void RunTimersOnLoop();
  int MillisecondsToNextTimer() const;

  int epoll_fd_ = -1;
  int wake_fd_ = -1;

  Mutex mu_;
  std::vector<std::function<void()>> posted_ GUARDED_BY(mu_);
  bool closed_ GUARDED_BY(mu_) = false;

  std::unordered_map<int, FdHandler*> handlers_;     // loop only
  std::map<TimerId, std::function<void()>> timers_;  // loop only
  uint64_t next_timer_ = 0;                          // loop only

  std::thread thread_;  // last: starts when everything else exists
};

}  // namespace kungfu
