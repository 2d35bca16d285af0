// A mutex and a condition variable that clang's thread-safety analysis understands.

#pragma once

#include <pthread.h>
#include <time.h>

#include <chrono>
#include <mutex>

#if defined(__clang__)
#define KF_ANNOTATE(x) __attribute__((x))
#else
#define KF_ANNOTATE(x)
#endif

#define CAPABILITY(x) KF_ANNOTATE(capability(x))
#define SCOPED_CAPABILITY KF_ANNOTATE(scoped_lockable)
#define GUARDED_BY(x) KF_ANNOTATE(guarded_by(x))
#define REQUIRES(...) KF_ANNOTATE(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) KF_ANNOTATE(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) KF_ANNOTATE(acquire_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) KF_ANNOTATE(try_acquire_capability(__VA_ARGS__))
#define RELEASE(...) KF_ANNOTATE(release_capability(__VA_ARGS__))

namespace kungfu {

class CAPABILITY("mutex") Mutex {
 public:
  void Lock() ACQUIRE() { mu_.lock(); }
  bool TryLock() TRY_ACQUIRE(true) { return mu_.try_lock(); }
  void Unlock() RELEASE() { mu_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mu_;
};

class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex* mu) ACQUIRE(mu) : mu_(mu) { mu_->Lock(); }
  ~MutexLock() RELEASE() { mu_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mu_;
};

// A wait may end for no reason: callers loop over their condition. Not std::condition_variable: it waits by the steady
// clock through a function that glibc has only since 2.30.
class CondVar {
 public:
  CondVar() {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&cv_, &attributes);
    pthread_condattr_destroy(&attributes);
  }
  ~CondVar() { pthread_cond_destroy(&cv_); }
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  void WaitUntil(Mutex* mu, std::chrono::steady_clock::time_point when) REQUIRES(mu) {
    const auto since_boot = when.time_since_epoch();
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_boot);
    const std::chrono::nanoseconds rest = since_boot - seconds;
    const timespec until{static_cast<time_t>(seconds.count()), static_cast<long>(rest.count())};
    pthread_cond_timedwait(&cv_, mu->mu_.native_handle(), &until);
  }
  void NotifyAll() { pthread_cond_broadcast(&cv_); }

 private:
  pthread_cond_t cv_;
};

}  // namespace kungfu
