#include "ops/transport/event_loop.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <system_error>

#include "ops/base/cores.h"
#include "ops/base/logging.h"

namespace kungfu {
namespace {

constexpr int kMaxEvents = 64;
constexpr uint64_t kWakeToken = 0;  // generations start at 1

// Then the own thread asks the system for events, even if other work is left.
constexpr Seconds kLongestTurn{0.001};
constexpr int kLooks = 8;
// It takes about so long until the own thread has seen that another thread wants its turn.
constexpr Seconds kHandOver{5e-6};

uint64_t Token(int fd, uint32_t generation) { return uint64_t{generation} << 32 | static_cast<uint32_t>(fd); }

// Tells the core that this is a loop which waits.
void PauseCore() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

int MillisecondsUntil(Deadline when) {
  if (when == Deadline::max()) return -1;
  const auto wait = when - Clock::now();
  if (wait <= Clock::duration::zero()) return 0;
  const auto rounded_up = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
  return static_cast<int>(std::min<int64_t>(rounded_up, std::numeric_limits<int>::max()));
}

}  // namespace

StatusOr<std::unique_ptr<EventLoop>> EventLoop::Start(const Patience& patience) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (epoll.get() < 0) return ErrnoError(errno, "the event loop's epoll");
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wake.get() < 0) return ErrnoError(errno, "the event loop's eventfd");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeToken;
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0)
    return ErrnoError(errno, "the event loop's epoll");
  std::unique_ptr<EventLoop> loop(new EventLoop(patience, std::move(epoll), std::move(wake)));
  try {
    loop->thread_ = std::thread([self = loop.get()] { self->Run(); });
  } catch (const std::system_error& error) {
    return ResourceExhaustedError(std::string("the event loop's thread: ") + error.what());
  }
  return loop;
}

EventLoop::~EventLoop() {
  Close();
  Join();
}

bool EventLoop::Post(std::function<void()> task) {
  {
    MutexLock lock(&mu_);
    if (closed_) return false;
    posted_.push_back(std::move(task));
    any_posted_.store(true);
  }
  if (asleep_.load() && asleep_.exchange(false)) Wake();
  return true;
}

bool EventLoop::MayRunAtOnce() {
  return InLoop() && std::exchange(starting_, false) && !any_posted_.load(std::memory_order_acquire);
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

void EventLoop::AddPollableOnLoop(Pollable* pollable) {
  KF_DCHECK(InLoop());
  pollables_.push_back(pollable);
}

void EventLoop::RemovePollableOnLoop(Pollable* pollable) {
  KF_DCHECK(InLoop());
  const auto it = std::find(pollables_.begin(), pollables_.end(), pollable);
  KF_CHECK(it != pollables_.end()) << "what is removed was not added";
  if (polling_) {
    *it = nullptr;
  } else {
    pollables_.erase(it);
  }
}

bool EventLoop::Poll() {
  bool any = false;
  polling_ = true;
  // Those that are added meanwhile have their turn next time.
  for (size_t i = 0, count = pollables_.size(); i < count; ++i) {
    if (pollables_[i] != nullptr) any |= pollables_[i]->PollOnLoop();
  }
  polling_ = false;
  pollables_.erase(std::remove(pollables_.begin(), pollables_.end(), nullptr), pollables_.end());
  return any;
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
  int timeout = 0;
  for (bool open = true; open;) {
    epoll_event events[kMaxEvents];
    const int count = epoll_wait(epoll_.get(), events, kMaxEvents, timeout);
    KF_CHECK(count >= 0 || errno == EINTR) << "epoll_wait: " << std::strerror(errno);
    own_waits_ = true;
    MutexLock turn(&turn_);
    own_waits_ = false;
    Enter();
    now_ = Clock::now();
    for (int i = 0; i < count; ++i) Dispatch(events[i].data.u64, events[i].events);
    Rounds([this] { return helpers_wait_.load(std::memory_order_relaxed) > 0; }, After(kLongestTurn), {});
    alarm_ = PrepareToSleep() ? NextTimer() : Clock::now();
    timeout = MillisecondsUntil(alarm_);
    open = IsOpen();
    if (!open) Finish();
    Leave();
  }
}

bool EventLoop::IsOpen() {
  MutexLock lock(&mu_);
  return !closed_;
}

void EventLoop::Finish() {
  over_ = true;
  Round();  // what was posted before the end
  // What the timers hold is released here: it may belong to the loop, and may cancel other timers.
  decltype(timers_) timers;
  timers.swap(timers_);
}

void EventLoop::Help(const std::function<void()>& start, const std::function<bool()>& until,
                     std::optional<Seconds> longest) {
  if (InLoop()) return start();
  if (longest) KeepCoreForWaker();
  const Deadline last = longest ? After(*longest) : Deadline::max();
  const Patience patience = longest ? patience_.IfThereAreCores() : patience_;
  if (TryEnter()) {
    starting_ = true;
    start();
    starting_ = false;
    return Serve(until, last, patience);
  }
  start();
  const Deadline end = std::min(last, After(std::min(patience.looks, kHandOver)));
  ++helpers_wait_;
  while (!until() && Clock::now() < end) {
    if (TryEnter()) {
      --helpers_wait_;
      return Serve(until, last, patience);
    }
    PauseCore();
  }
  --helpers_wait_;
}

void EventLoop::Serve(const std::function<bool()>& until, Deadline last, const Patience& patience) {
  if (!until()) Rounds([&] { return until() || own_waits_.load(std::memory_order_relaxed); }, last, patience);
  // The remaining work is done here, too, unless it does not end.
  bool sleeps = PrepareToSleep();
  for (int i = 0; i < kLooks && !sleeps && !own_waits_.load(std::memory_order_relaxed); ++i) {
    Round();
    sleeps = PrepareToSleep();
  }
  const bool wake = !sleeps || NextTimer() < alarm_;
  Leave();
  turn_.Unlock();
  if (wake) Wake();
}

bool EventLoop::TryEnter() {
  if (!turn_.TryLock()) return false;
  if (over_) {
    turn_.Unlock();
    return false;
  }
  Enter();
  return true;
}

void EventLoop::Enter() {
  running_ = std::this_thread::get_id();
  for (Pollable* pollable : pollables_) pollable->WakeOnLoop();
  asleep_.store(false, std::memory_order_relaxed);
}

template <typename Until>
void EventLoop::Rounds(const Until& until, Deadline last, const Patience& patience) {
  const auto looks = std::chrono::duration_cast<Clock::duration>(pollables_.empty() ? Seconds(0) : patience.looks);
  const auto stays = std::chrono::duration_cast<Clock::duration>(patience.stays);
  const int most = patience.SharesCores() ? 1 : kLooks;
  bool idle = false;
  for (Deadline now = Clock::now(), end = now + looks, stays_until = now + stays;; now = Clock::now()) {
    now_ = now;
    bool any = RunTimers(now);
    // It takes as long to read the clock as to look around.
    for (int i = 0; i == 0 || (i < most && !any); ++i) {
      if (i > 0) PauseCore();
      const bool found = Round();
      if (found && idle) lookout_.Found();
      if (until()) return;
      any |= found;
    }
    idle = !any;
    if (any) {
      end = now + looks;
      stays_until = now + stays;
    }
    if (now >= last || (idle && now >= end)) return;
    if (!idle || now < stays_until) continue;
    if (patience.SharesCores()) {
      sched_yield();
    } else {
      lookout_.GiveWay();
    }
  }
}

bool EventLoop::Round() {
  TakePosted();
  bool any = !taken_.empty();
  any |= Poll();
  for (auto& task : taken_) {
    task();
    task = nullptr;
  }
  taken_.clear();
  return any;
}

bool EventLoop::PrepareToSleep() {
  bool idle = true;
  for (Pollable* pollable : pollables_) idle &= pollable->SleepOnLoop();
  if (idle) {
    asleep_.store(true);
    if (!any_posted_.load()) return true;
    asleep_.store(false);
  }
  for (Pollable* pollable : pollables_) pollable->WakeOnLoop();
  return false;
}

void EventLoop::TakePosted() {
  if (!any_posted_.load(std::memory_order_acquire)) return;
  MutexLock lock(&mu_);
  any_posted_.store(false, std::memory_order_relaxed);
  taken_.swap(posted_);
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

bool EventLoop::RunTimers(Clock::time_point now) {
  // A timer that is set by another one waits for the next round, so that sockets get their turn.
  const uint64_t first_new = next_timer_;
  bool any = false;
  while (!timers_.empty()) {
    const auto next = timers_.begin();
    if (next->first.first > now || next->first.second >= first_new) break;
    const std::function<void()> task = std::move(next->second);
    timers_.erase(next);
    task();
    any = true;
  }
  return any;
}

Deadline EventLoop::NextTimer() const { return timers_.empty() ? Deadline::max() : timers_.begin()->first.first; }

}  // namespace kungfu
