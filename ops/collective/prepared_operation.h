// What is decided once for operations of one name that follow each other: what they must have in common on all peers,
// the way of their data, and the places of their messages. What is done every time is in running_operation.h.

#pragma once

#include <cstdint>
#include <memory>

#include "ops/base/status.h"
#include "ops/collective/mover.h"
#include "ops/collective/operation.h"
#include "ops/collective/planner.h"
#include "ops/router/conversation.h"

namespace kungfu {

// Lives on the event loop's thread.
class PreparedOperation {
 public:
  // All that is passed must outlive it; `operation` is the place of the one that runs.
  PreparedOperation(Router* router, Routes* routes, const PeerList& peers, const MoverFactory& movers, OperationId id,
                    Operation* operation, ConversationHandler* handler);

  // Whether `next` differs from the operation that it was made for in nothing but its buffers, step and callbacks. Only
  // all_reduces and barriers of all peers, without norms, are prepared for others.
  bool Fits(const Operation& next) const;
  // The operation has ended well: lets go of what others cannot use. Returns whether there may be others.
  bool RestOnLoop();
  // Another operation is in the place of the one before. REQUIRES: it fits; RestOnLoop returned true.
  void RepeatOnLoop(uint64_t number);

  // The mover of the next stage; null after the last one. An error ends the operation.
  StatusOr<Mover*> NextOnLoop();

  Conversation& conversation() { return conversation_; }
  const Conversation& conversation() const { return conversation_; }
  // Of the stage that runs; null before the first one.
  Mover* mover() const { return mover_.get(); }
  void DropMover() { mover_.reset(); }

 private:
  const Operation& operation_;
  const MoverFactory& movers_;
  const int rank_;
  const bool is_plain_;  // it may be prepared for others
  const ReduceOp op_;    // also where the signature has none

  Conversation conversation_;
  Plan plan_;
  std::unique_ptr<Mover> mover_;
  Movement* again_ = nullptr;  // the mover's, for the next operation
};

}  // namespace kungfu
