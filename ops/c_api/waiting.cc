// Threads that do the core's work while they wait for it.

#include <functional>
#include <optional>

#include "ops/base/deadline.h"
#include "ops/base/event.h"
#include "ops/base/status.h"
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
    if (static_cast<Code>(code) != Code::kOk) ending->status_ = Status(static_cast<Code>(code), message);
    ending->over_.Happen();
  }

  bool over() const { return over_.happened(); }

  const Status& Await() {
    while (!over() && !over_.AwaitUntil(After(kAsLongAsItTakes))) {
    }
    return status_;
  }

 private:
  Event over_;
  Status status_;  // once it is over
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
