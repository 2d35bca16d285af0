// One operation under way: takes it through its stages, and ends it once, well or ill. What is decided once for all of
// a name is in prepared_operation.h.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/base/deadline.h"
#include "ops/collective/mover.h"
#include "ops/collective/operation.h"
#include "ops/collective/planner.h"
#include "ops/collective/prepared_operation.h"
#include "ops/router/conversation.h"
#include "ops/transport/event_loop.h"

namespace kungfu {

// Lives on the event loop's thread.
class RunningOperation : private ConversationHandler {
 public:
  // Called once, when the operation is over and none of its buffers is used any more. May destroy it.
  using Ended = std::function<void(RunningOperation* operation, Status status)>;
  // Called when an error was found here of which the other peers are to be told: at once, while buffers may be in use.
  using Found = std::function<void(RunningOperation* operation, const Status& status)>;

  RunningOperation(EventLoop* loop, Router* router, Routes* routes, const PeerList& peers, const MoverFactory& movers,
                   uint64_t handle, OperationId id, Operation operation, Found found, Ended ended);
  ~RunningOperation() override;

  void StartOnLoop();
  // The first error decides. `tell`: whether the other peers are to be told.
  void FailOnLoop(const Status& status, bool tell);

  // A peer tells its signature of the operation: no data may pass between two peers that disagree.
  void CompareOnLoop(const PeerId& from, const Signature& theirs);

  // It has ended well. Returns whether it may be repeated for another operation.
  bool RestOnLoop();
  bool Fits(const Operation& next) const { return prepared_.Fits(next); }
  // Another operation of the name takes its place, and can be started. REQUIRES: it fits; RestOnLoop returned true.
  void RepeatOnLoop(uint64_t handle, uint64_t number, Operation&& operation);

  uint64_t handle() const { return handle_; }
  const OperationId& id() const { return prepared_.conversation().id(); }
  const Operation& operation() const { return operation_; }
  // REQUIRES: it has ended.
  Operation* ended_operation() { return &operation_; }
  const Signature& signature() const { return prepared_.conversation().signature(); }
  std::string title() const { return Title(operation_); }
  Clock::time_point started() const { return started_; }
  bool failed() const { return !failure_.ok(); }
  // The rank that it has been found to differ from; -1 for none.
  int differs_from() const { return differs_from_; }
  std::vector<int> AwaitedOnLoop() const;

 private:
  void NextStage();
  void OnMismatchOnLoop(const PeerId& from, const std::string& difference) override;

  EventLoop* const loop_;
  const PeerList& peers_;
  const int rank_;
  const Found found_;
  const Ended ended_;
  const std::shared_ptr<int> alive_ = std::make_shared<int>();

  uint64_t handle_;  // 0 while it rests
  Operation operation_;
  Clock::time_point started_;  // when it was called
  PreparedOperation prepared_;
  Status failure_;
  int differs_from_ = -1;
};

}  // namespace kungfu
