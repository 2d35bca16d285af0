// Operations of the core that outlive the kernel that begins them: another kernel, in this step or a later one, takes
// what has come.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ops/tensorflow/kernel_util.h"

namespace kungfu::kernels {

// One operation. It lives until both the core and its taker have let go of it. Any thread.
class Begun {
 public:
  // Set before the operation is started, and the core's until it has ended.
  std::vector<Tensor> sent, results;
  int64_t version = -1;  // of a request

  // For a function of the core: `OnDone` with this argument.
  static void* ArgumentOf(const std::shared_ptr<Begun>& begun) { return new std::shared_ptr<Begun>(begun); }
  static void OnDone(void* arg, int code, const char* message);

  void SetOperation(uint64_t operation);
  void Cancel();
  // Calls `then` once with how it has ended: now, if it has.
  void Await(std::function<void(const absl::Status&)> then);
  // The same for a kernel, whose step may be cancelled meanwhile. Then the operation is, too.
  static void AwaitIn(OpKernelContext* context, const std::shared_ptr<Begun>& begun,
                      std::function<void(const absl::Status&)> then);

 private:
  void Finish(absl::Status status);

  std::mutex mu_;
  // Guarded by mu_.
  uint64_t operation_ = 0;
  bool done_ = false;
  std::vector<std::function<void(const absl::Status&)>> then_;
  absl::Status status_;  // does not change once done_
};

// Those of this process that have not been taken yet, by tag. Any thread.
class BegunByTag {
 public:
  // Requests of the store, and collectives. Never destroyed: the core's thread may still finish one.
  static BegunByTag& Requests();
  static BegunByTag& Collectives();

  // Returns false if there is one already.
  bool Add(const std::string& tag, std::shared_ptr<Begun> begun);
  // Null if there is none.
  std::shared_ptr<Begun> Take(const std::string& tag);
  // Takes all whose tags begin so.
  std::vector<std::shared_ptr<Begun>> TakeAll(const std::string& prefix);
  // Calls `then` when those that are here now have ended, in whatever way.
  void WhenEnded(std::function<void()> then);

 private:
  std::mutex mu_;
  std::map<std::string, std::shared_ptr<Begun>> by_tag_;  // guarded by mu_
};

}  // namespace kungfu::kernels
