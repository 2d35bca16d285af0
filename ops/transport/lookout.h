// For how long to look out for what another process is about to do before going to sleep for it.
//
// That pays where the other process runs meanwhile. Where it waits for the very core that looks out, what it does comes
// as soon as one sleeps: then one does so at once for a number of times, twice as many whenever it happens again. Each
// time that something comes while one looks makes it half as many.

#pragma once

#include "ops/base/deadline.h"

namespace kungfu {

// One thread at a time.
class Lookout {
 public:
  explicit Lookout(Seconds longest) : longest_(longest) {}

  // How long to look this time.
  Seconds Begin();
  // Something has come meanwhile.
  void Found() { skips_ /= 2; }
  // It came when one had looked, or not, and then slept for so long.
  void Missed(Seconds slept);

 private:
  static constexpr int kMostSkips = 1023;
  static constexpr int kSoon = 4;  // times as long as one looks

  const Seconds longest_;
  int skips_ = 0;        // how often not to look after it was in vain
  int left_ = 0;         // of them
  bool looked_ = false;  // this time
};

}  // namespace kungfu
