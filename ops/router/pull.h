// The router, as the store sees it. Its messages belong to no epoch (kNoEpoch): a pull goes on while the membership
// changes.
//
//   asker → keeper   kPull  number: of the asker's pulls; name: of the blob; part: flags; signature: what is expected;
//                           signature.step: the version + 1, or 0 for the newest; of a queue its epoch + 1
//   keeper → asker   part 0: the blob's head, see blob_head.h of the store; parts 1, 2, ...: the bytes, kPullPart in
//                    each. They carry the signature of the pull, and wait for credit and grants like all data.
//               or   kFail  part 0: there is no such blob; kUnavailable: the keeper is about to leave
//   asker → keeper   kFail  part 1: it is not wanted any more

#pragma once

#include <cstdint>

#include "ops/base/status.h"
#include "ops/plan/peer_id.h"
#include "ops/router/mailbox.h"
#include "ops/transport/wire.h"

namespace kungfu {

inline constexpr uint32_t kPullWaits = 1;  // flag: wait for a blob that is not there yet
inline constexpr uint32_t kPullTakes = 2;  // flag: out of a queue
inline constexpr uint64_t kPullPart = 1 << 20;

// Hears of pulls, on the loop.
class PullHandler {
 public:
  virtual ~PullHandler() = default;
  virtual void OnPullOnLoop(const PeerId& asker, const FrameHeader& pull) = 0;
  // The asker does not want it any more.
  virtual void OnPullDroppedOnLoop(const PeerId& asker, const OperationId& id) = 0;
  // To our own pull.
  virtual void OnPullRefusedOnLoop(const PeerId& keeper, const OperationId& id, const Status& why) = 0;
  virtual void OnAskerLostOnLoop(const PeerId& asker) = 0;
};

}  // namespace kungfu
