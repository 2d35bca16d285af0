// The behaviour of a thread that has looked out for a while for another process: it yields its core to any process that
// waits for it.
//
// To wake a thread costs a few microseconds, and some hundreds of them on a virtual machine whose core has gone to
// sleep, too. So looking out for that long pays, if it takes nothing from processes that have work. The process that
// one waits for may be waiting for this very core. Then one of them moves to another core: otherwise the system would
// let them share one for a long time while another is idle. A process that has work is another case: it keeps a core
// for longer, and may want the other one, too.

#pragma once

#include <optional>

#include "ops/base/deadline.h"

namespace kungfu {

// The time for which a thread looks on before it sleeps, and the part of it for which it never yields its core.
struct Patience {
  Seconds looks{0};
  Seconds stays{0};

  // Peers take turns on the cores: each look keeps one from the process that is awaited. A thread that looks on gives
  // its core away after every look. It stays there: elsewhere it would be in the way of others, or use up their quota.
  bool SharesCores() const { return looks.count() > 0 && stays.count() == 0; }
  // The patience of a thread that has other work: where cores are scarce it turns to that.
  Patience IfThereAreCores() const { return stays.count() > 0 ? *this : Patience(); }
};

// One thread at a time.
class Lookout {
 public:
  // Lets another thread have this core, if one waits for it.
  void GiveWay();
  // The awaited event has come. If another thread has had this core for a moment, it came from there.
  void Found();

 private:
  bool gave_way_ = false;                // for a moment
  std::optional<Deadline> stays_until_;  // on its core, without yielding it
};

}  // namespace kungfu
