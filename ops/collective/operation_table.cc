#include "ops/collective/operation_table.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "ops/base/logging.h"

namespace kungfu {
namespace {

// So many names, those that were used last, keep what was prepared for them.
constexpr size_t kMostResting = 1 << 10;

}  // namespace

OperationTable::OperationTable(EventLoop* loop, Router* router, const PeerList& peers, uint32_t epoch,
                               std::string prefix, MoverFactory movers, RunningOperation::Found found,
                               RunningOperation::Ended ended)
    : loop_(loop),
      router_(router),
      peers_(peers),
      epoch_(epoch),
      prefix_(std::move(prefix)),
      movers_(std::move(movers)),
      found_(std::move(found)),
      ended_(std::move(ended)) {}

OperationTable::~OperationTable() = default;

void OperationTable::UseRoutesOnLoop(std::unique_ptr<Routes> routes) {
  KF_DCHECK(loop_->InLoop());
  ForgetRestingOnLoop();
  routes_ = std::move(routes);
}

bool OperationTable::WasCalled(const OperationId& id) const {
  if (id.name.compare(0, prefix_.size(), prefix_) != 0) return false;
  const auto named = names_.find(NameOf(id));
  return named != names_.end() && id.number < named->second.begun;
}

Status OperationTable::EarlyFailureOnLoop(const OperationId& id) const {
  KF_DCHECK(loop_->InLoop());
  if (failed_early_.empty()) return OkStatus();
  const auto early = failed_early_.find(id);
  return early == failed_early_.end() ? OkStatus() : early->second;
}

Status OperationTable::TakeEarlyFailureOnLoop(const OperationId& id) {
  KF_DCHECK(loop_->InLoop());
  const Status status = EarlyFailureOnLoop(id);
  if (!status.ok()) failed_early_.erase(id);
  return status;
}

void OperationTable::GiveEarlyFailuresOnLoop(OperationTable* of_group) {
  KF_DCHECK(loop_->InLoop());
  for (auto early = failed_early_.begin(); early != failed_early_.end();) {
    if (early->first.name.rfind(of_group->prefix_, 0) != 0) {
      ++early;
      continue;
    }
    of_group->failed_early_.insert(*early);
    early = failed_early_.erase(early);
  }
}

const OperationTable::Waiting* OperationTable::FindWaitingOnLoop(const OperationId& id) const {
  KF_DCHECK(loop_->InLoop());
  const auto it = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& one) { return one.id == id; });
  return it == waiting_.end() ? nullptr : &*it;
}

const OperationTable::Waiting* OperationTable::FindWaitingOnLoop(uint64_t handle) const {
  KF_DCHECK(loop_->InLoop());
  const auto it =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& one) { return one.handle == handle; });
  return it == waiting_.end() ? nullptr : &*it;
}

Operation OperationTable::TakeWaitingOnLoop(const Waiting* waiting) {
  KF_DCHECK(loop_->InLoop());
  const auto it = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& one) { return &one == waiting; });
  Operation operation = std::move(it->operation);
  waiting_.erase(it);
  return operation;
}

RunningOperation* OperationTable::PlaceOnLoop(uint64_t handle, Named* named, uint64_t number, Operation&& operation,
                                              bool* repeats) {
  KF_DCHECK(loop_->InLoop());
  Record* const resting = TakeRestingOnLoop(named, operation);
  *repeats = resting != nullptr;
  if (!resting) return AddOnLoop(handle, named, number, std::move(operation));
  resting->RepeatOnLoop(handle, number, std::move(operation));
  return resting;
}

OperationTable::Record* OperationTable::TakeRestingOnLoop(Named* named, const Operation& operation) {
  KF_DCHECK(loop_->InLoop());
  Record* const record = std::exchange(named->resting, nullptr);
  if (!record) return nullptr;
  if (record->Fits(operation)) {
    running_.splice(running_.end(), resting_, record->at);
    return record;
  }
  resting_.erase(record->at);
  return nullptr;
}

OperationTable::Record* OperationTable::AddOnLoop(uint64_t handle, Named* named, uint64_t number,
                                                  Operation&& operation) {
  KF_DCHECK(loop_->InLoop());
  OperationId id = IdOf(operation.name, number);
  Record& record = running_.emplace_back(loop_, router_, routes_.get(), peers_, movers_, handle, std::move(id),
                                         std::move(operation), found_, ended_);
  record.named = named;
  record.at = std::prev(running_.end());
  return &record;
}

const RunningOperation& OperationTable::front() const { return running_.front(); }

RunningOperation* OperationTable::FindRunningOnLoop(const OperationId& id) {
  KF_DCHECK(loop_->InLoop());
  const auto it = std::find_if(running_.begin(), running_.end(), [&](const Record& one) { return one.id() == id; });
  return it == running_.end() ? nullptr : &*it;
}

RunningOperation* OperationTable::FindRunningOnLoop(uint64_t handle) {
  KF_DCHECK(loop_->InLoop());
  const auto it =
      std::find_if(running_.begin(), running_.end(), [&](const Record& one) { return one.handle() == handle; });
  return it == running_.end() ? nullptr : &*it;
}

bool OperationTable::RestOnLoop(RunningOperation* ended) {
  KF_DCHECK(loop_->InLoop());
  auto* const record = static_cast<Record*>(ended);
  Named* const named = record->named;
  if (named->resting != nullptr || !record->RestOnLoop()) return false;
  named->resting = record;
  resting_.splice(resting_.end(), running_, record->at);
  if (resting_.size() > kMostResting) {
    resting_.front().named->resting = nullptr;
    resting_.pop_front();
  }
  return true;
}

Operation OperationTable::TakeEndedOnLoop(RunningOperation* ended) {
  KF_DCHECK(loop_->InLoop());
  Operation operation = std::move(*ended->ended_operation());
  running_.erase(static_cast<Record*>(ended)->at);
  return operation;
}

void OperationTable::ForgetRestingOnLoop() {
  KF_DCHECK(loop_->InLoop());
  for (Record& record : resting_) record.named->resting = nullptr;
  resting_.clear();
}

}  // namespace kungfu
