#include "ops/transport/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <system_error>

#include "ops/base/logging.h"

namespace kungfu {
namespace {

constexpr int kMaxEvents = 64;
constexpr uint64_t kWakeToken = 0;  // generations start at 1

uint64_t Token(int fd, uint32_t generation) { return uint64_t{generation} << 32 | static_cast<uint32_t>(fd); }

}  // namespace

StatusOr<std::unique_ptr<EventLoop>> EventLoop::Start() {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (epoll.get() < 0) return ErrnoError(errno, "the event loop's epoll");
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wake.get() < 0) return ErrnoError(errno, "the event loop's eventfd");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeToken;
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0)
    return ErrnoError(errno, "the event loop's epoll");
  std::unique_ptr<EventLoop> loop(new EventLoop(std::move(epoll), std::move(wake)));
  try {
    loop->thread_ = std::thread([self = loop.get()] { self->Run(); });
  } catch (const std::system_error& error) {
    return ResourceExhaustedError(std::string("the event loop's thread: ") + error.what());
  }
  loop->loop_thread_ = loop->thread_.get_id();
  return loop;
}

EventLoop::~EventLoop() {
  Close();
  Join();
}

bool EventLoop::Post(std::function<void()> task) {
  bool wake;
  {
    MutexLock lock(&mu_);
    if (closed_) return false;
    posted_.push_back(std::move(task));
    wake = waiting_;
    waiting_ = false;
  }
  if (wake) Wake();
  return true;
}

void EventLoop::Close() {
  {
    MutexLock lock(&mu_);
    if (closed_) return;
    closed_ = true;
  }
  Wake();
}

void EventLoop::Join() {
  KF_CHECK(!InLoop()) << "an event loop cannot wait for itself";
  if (thread_.joinable()) thread_.join();
}

void EventLoop::Wake() {
  const uint64_t one = 1;
  // It fails only when the counter is full: then the loop is awake.
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

void EventLoop::WatchOnLoop(int fd, uint32_t events, FdHandler* handler) {
  KF_DCHECK(InLoop());
  const uint32_t generation = next_generation_++;
  if (next_generation_ == 0) next_generation_ = 1;
  const bool added = watches_.emplace(fd, Watch{handler, generation}).second;
  KF_CHECK(added) << "descriptor " << fd << " is watched already";
  epoll_event event{};
  event.events = events;
  event.data.u64 = Token(fd, generation);
  KF_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0)
      << "descriptor " << fd << ": " << std::strerror(errno);
}

void EventLoop::ModifyOnLoop(int fd, uint32_t events) {
  KF_DCHECK(InLoop());
  const auto watch = watches_.find(fd);
  KF_CHECK(watch != watches_.end()) << "descriptor " << fd << " is not watched";
  epoll_event event{};
  event.events = events;
  event.data.u64 = Token(fd, watch->second.generation);
  KF_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0)
      << "descriptor " << fd << ": " << std::strerror(errno);
}

void EventLoop::UnwatchOnLoop(int fd) {
  KF_DCHECK(InLoop());
  const bool erased = watches_.erase(fd) == 1;
  KF_CHECK(erased) << "descriptor " << fd << " is not watched";
  KF_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr) == 0)
      << "descriptor " << fd << ": " << std::strerror(errno);
}

EventLoop::TimerId EventLoop::RunAtOnLoop(Deadline when, std::function<void()> task) {
  KF_DCHECK(InLoop());
  const TimerId id(when, next_timer_++);
  timers_.emplace(id, std::move(task));
  return id;
}

void EventLoop::CancelTimerOnLoop(const TimerId& id) {
  KF_DCHECK(InLoop());
  timers_.erase(id);
}

void EventLoop::Run() {
  for (bool open = true; open;) {
    epoll_event events[kMaxEvents];
    const int count = epoll_wait(epoll_.get(), events, kMaxEvents, PrepareToWait());
    KF_CHECK(count >= 0 || errno == EINTR) << "epoll_wait: " << std::strerror(errno);
    Tasks tasks;
    open = TakePosted(&tasks);
    for (int i = 0; i < count; ++i) Dispatch(events[i].data.u64, events[i].events);
    RunTimers();
    for (auto& task : tasks) {
      task();
      task = nullptr;
    }
  }
  // What the timers hold is released here: it may belong to this thread, and may cancel other timers.
  decltype(timers_) timers;
  timers.swap(timers_);
}

int EventLoop::PrepareToWait() {
  const int timeout = MillisecondsToNextTimer();
  MutexLock lock(&mu_);
  if (closed_ || !posted_.empty()) return 0;
  waiting_ = true;
  return timeout;
}

bool EventLoop::TakePosted(Tasks* tasks) {
  MutexLock lock(&mu_);
  waiting_ = false;
  tasks->swap(posted_);
  return !closed_;
}

void EventLoop::Dispatch(uint64_t token, uint32_t events) {
  if (token == kWakeToken) {
    uint64_t count;
    [[maybe_unused]] const ssize_t drained = read(wake_.get(), &count, sizeof(count));
    return;
  }
  const int fd = static_cast<int>(static_cast<uint32_t>(token));
  const auto watch = watches_.find(fd);
  if (watch == watches_.end() || Token(fd, watch->second.generation) != token) return;
  watch->second.handler->OnEventsOnLoop(events);
}

void EventLoop::RunTimers() {
  if (timers_.empty()) return;
  // A timer that is set by another one waits for the next round, so that sockets get their turn.
  const uint64_t first_new = next_timer_;
  const Deadline now = Clock::now();
  while (!timers_.empty()) {
    const auto next = timers_.begin();
    if (next->first.first > now || next->first.second >= first_new) break;
    const std::function<void()> task = std::move(next->second);
    timers_.erase(next);
    task();
  }
}

int EventLoop::MillisecondsToNextTimer() const {
  if (timers_.empty()) return -1;
  const auto wait = timers_.begin()->first.first - Clock::now();
  if (wait <= Clock::duration::zero()) return 0;
  const auto rounded_up = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
  return static_cast<int>(std::min<int64_t>(rounded_up, std::numeric_limits<int>::max()));
}

}  // namespace kungfu
