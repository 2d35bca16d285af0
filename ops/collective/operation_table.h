// The operations of a session that were called here: how many there are of each name, and those that wait until the
// peers have come together, that run, or that rest until another of their name takes their place.
//
// It keeps them and finds them. When they begin, and what the peers are told of them, is the session's (session.h).

#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "ops/base/status.h"
#include "ops/collective/mover.h"
#include "ops/collective/operation.h"
#include "ops/collective/planner.h"
#include "ops/collective/running_operation.h"
#include "ops/monitor/operation_counters.h"
#include "ops/plan/peer_list.h"
#include "ops/router/router.h"
#include "ops/transport/event_loop.h"

namespace kungfu {

// Lives on the event loop's thread.
class OperationTable {
 private:
  struct Record;

 public:
  // The operations of one name.
  struct Named {
    uint64_t begun = 0;                            // how many were called
    OperationCounters::OfName* counted = nullptr;  // null: none has run
    Record* resting = nullptr;                     // the table's
  };
  // Called, and waiting until the peers have come together.
  struct Waiting {
    uint64_t handle;
    OperationId id;
    Operation operation;
    EventLoop::TimerId timer;
  };

  // All that is passed by pointer or reference must outlive it. `prefix` stands before the names on the wire. What runs
  // calls `found` and `ended` (running_operation.h).
  OperationTable(EventLoop* loop, Router* router, const PeerList& peers, uint32_t epoch, std::string prefix,
                 MoverFactory movers, RunningOperation::Found found, RunningOperation::Ended ended);
  ~OperationTable();

  // The ways of those that run from now on. What rests goes the ways of before, and is forgotten.
  void UseRoutesOnLoop(std::unique_ptr<Routes> routes);

  // -- Names and numbers --

  OperationId IdOf(const std::string& name, uint64_t number) const { return {epoch_, number, prefix_ + name}; }
  // Without the prefix.
  std::string NameOf(const OperationId& id) const { return id.name.substr(prefix_.size()); }
  // Made if there is none. To find one takes less than to make one: of few names none is hashed.
  Named* NamedOnLoop(const std::string& name) {
    const auto known = names_.find(name);
    return known == names_.end() ? &names_[name] : &known->second;
  }
  // Whether the operation was called here.
  bool WasCalled(const OperationId& id) const;

  // -- Failures of operations that were not called here yet --

  // The first one of an operation stays.
  void FailEarlyOnLoop(const OperationId& id, const Status& status) { failed_early_.emplace(id, status); }
  size_t early_failures() const { return failed_early_.size(); }
  // OK if it has not failed.
  Status EarlyFailureOnLoop(const OperationId& id) const;
  // Forgets it, too.
  Status TakeEarlyFailureOnLoop(const OperationId& id);
  // Gives another table those that are its own, by their names.
  void GiveEarlyFailuresOnLoop(OperationTable* of_group);

  // -- Those that wait, oldest first --

  void WaitOnLoop(Waiting one) { waiting_.push_back(std::move(one)); }
  const std::list<Waiting>& waiting() const { return waiting_; }
  std::list<Waiting> TakeAllWaitingOnLoop() { return std::exchange(waiting_, {}); }
  const Waiting* FindWaitingOnLoop(const OperationId& id) const;
  const Waiting* FindWaitingOnLoop(uint64_t handle) const;
  Operation TakeWaitingOnLoop(const Waiting* waiting);

  // -- Those that run, oldest first --

  // Takes the place of one that rests, if that fits, or makes a new one. It can be started. `repeats`: whether it takes
  // a place, and is as valid as the one before.
  RunningOperation* PlaceOnLoop(uint64_t handle, Named* named, uint64_t number, Operation&& operation, bool* repeats);
  bool runs_any() const { return !running_.empty(); }
  // The oldest. REQUIRES: any runs.
  const RunningOperation& front() const;
  template <typename Visit>
  void ForRunningOnLoop(const Visit& visit) {
    for (Record& running : running_) visit(&running);
  }
  // Null if it does not run.
  RunningOperation* FindRunningOnLoop(const OperationId& id);
  RunningOperation* FindRunningOnLoop(uint64_t handle);
  // One has ended well. Returns whether it rests from now on.
  bool RestOnLoop(RunningOperation* ended);
  // One has ended, and does not rest.
  Operation TakeEndedOnLoop(RunningOperation* ended);
  void ForgetRestingOnLoop();

 private:
  // One that runs or rests.
  struct Record : RunningOperation {
    using RunningOperation::RunningOperation;
    Named* named = nullptr;
    std::list<Record>::iterator at;
  };

  Record* TakeRestingOnLoop(Named* named, const Operation& operation);
  Record* AddOnLoop(uint64_t handle, Named* named, uint64_t number, Operation&& operation);

  EventLoop* const loop_;
  Router* const router_;
  const PeerList& peers_;
  const uint32_t epoch_;
  const std::string prefix_;
  const MoverFactory movers_;
  const RunningOperation::Found found_;
  const RunningOperation::Ended ended_;

  std::unique_ptr<Routes> routes_;
  std::unordered_map<std::string, Named> names_;
  std::unordered_map<OperationId, Status, OperationIdHash> failed_early_;
  std::list<Waiting> waiting_;
  std::list<Record> running_;
  std::list<Record> resting_;  // those that rest longest first
};

}  // namespace kungfu
