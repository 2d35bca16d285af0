// Threads that do the core's work while they wait for it.

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "ops/base/deadline.h"
#include "ops/base/mutex.h"
#include "ops/c_api/kungfu.h"
#include "ops/c_api/last_error.h"
#include "ops/peer/default_peer.h"

namespace kungfu {
namespace {

// Operations have deadlines of their own.
constexpr Seconds kAsLongAsItTakes{1e6};

// How one operation ends, for the thread that waits for it.
class Ending {
 public:
  static void Done(void* self, int code, const char* message) {
    auto* ending = static_cast<Ending*>(self);
    MutexLock lock(&ending->mu_);
    ending->code_ = static_cast<Code>(code);
    ending->message_ = message;
    ending->over_ = true;
    ending->changed_.NotifyAll();
  }

  bool over() const { return over_.load(std::memory_order_acquire); }

  // When it is known, and Done has let go of this object.
  Status Await() {
    MutexLock lock(&mu_);
    while (!over()) changed_.WaitUntil(&mu_, After(kAsLongAsItTakes));
    return Status(code_, message_);
  }

 private:
  std::atomic<bool> over_{false};
  Mutex mu_;
  CondVar changed_;
  Code code_ GUARDED_BY(mu_) = Code::kOk;
  std::string message_ GUARDED_BY(mu_);
};

}  // namespace
}  // namespace kungfu

using kungfu::Peer;
using kungfu::Seconds;
using kungfu::StatusOr;

int kungfu_wait(void (*start)(void* arg, kungfu_done done, void* done_arg), void* arg) {
  kungfu::Ending ending;
  const auto begin = [&] { start(arg, kungfu::Ending::Done, &ending); };
  StatusOr<Peer*> peer = kungfu::DefaultPeer();
  if (peer.ok()) {
    (*peer)->Help(std::ref(begin), [&ending] { return ending.over(); }, std::nullopt);
  } else {
    begin();
  }
  return kungfu::SetLastError(ending.Await());
}

void kungfu_help(void (*start)(void* arg), int (*until)(void* arg), void* arg, double seconds) {
  StatusOr<Peer*> peer = kungfu::DefaultPeer();
  if (!peer.ok()) return start(arg);
  (*peer)->Help([=] { start(arg); }, [=] { return until(arg) != 0; }, Seconds(seconds));
}
