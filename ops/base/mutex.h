// A mutex that clang's thread-safety analysis understands.

#pragma once

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
#define NO_THREAD_SAFETY_ANALYSIS KF_ANNOTATE(no_thread_safety_analysis)

namespace kungfu {

class CAPABILITY("mutex") Mutex {
 public:
  void Lock() ACQUIRE() { mu_.lock(); }
  bool TryLock() TRY_ACQUIRE(true) { return mu_.try_lock(); }
  void Unlock() RELEASE() { mu_.unlock(); }

 private:
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

}  // namespace kungfu
