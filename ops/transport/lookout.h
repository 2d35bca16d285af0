// What a thread does when it has looked out for a while for what another process is about to do: it leaves its core to
// whoever waits for that.
//
// To wake a thread costs a few microseconds, and some hundreds of them on a virtual machine whose core has gone to
// sleep, too. So looking out for that long pays, if it takes nothing from those who have work to do. And the process
// that one waits for may be waiting for this very core: then one of them goes to another core, or they would take turns
// on one while the other is idle, which the system lets them do for a long time. Who has work to do is no such process:
// it keeps a core for longer, and may want the other one, too.

#pragma once

#include <optional>

#include "ops/base/deadline.h"

namespace kungfu {

// How long a thread looks on before it sleeps, and how much of that it keeps its core, whoever wants it.
struct Patience {
  Seconds looks{0};
  Seconds stays{0};

  // Of one that has other things to do: where cores are scarce it goes to do them.
  Patience IfThereAreCores() const { return stays.count() > 0 ? *this : Patience(); }
};

// One thread at a time.
class Lookout {
 public:
  // Lets another thread have this core, if one waits for it.
  void GiveWay();
  // What was looked out for has come. If another thread has had this core for a moment, it came from there.
  void Found();

 private:
  bool gave_way_ = false;                // for a moment
  std::optional<Deadline> stays_until_;  // on its core, whoever wants it
};

}  // namespace kungfu
