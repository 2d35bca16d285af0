#include "ops/collective/host_meeting.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ops/base/logging.h"

namespace kungfu {
namespace {

Operation Gather(const std::string& name, const void* data, size_t size, Allocate allocate, StatusCallback done) {
  Operation operation;
  operation.kind = Kind::kAllGather;
  operation.name = name;
  operation.dtype = DType::kUint8;
  operation.spans = {{data, nullptr, size}};
  operation.allocate = std::move(allocate);
  operation.done = std::move(done);
  return operation;
}

}  // namespace

HostMeeting::HostMeeting(EventLoop* loop, Arena* arena, int rank, int size, Run run, Met met)
    : loop_(loop), rank_(rank), run_(std::move(run)), met_(std::move(met)), endpoints_(size) {
  if (arena == nullptr) {
    verdict_ = "it is turned off at rank " + std::to_string(rank);
    return;
  }
  StatusOr<std::unique_ptr<DirectGroup>> group = DirectGroup::Make(loop, arena, rank, size);
  if (group.ok()) {
    group_ = std::move(*group);
    mine_ = group_->endpoint();
  } else {
    verdict_ = "rank " + std::to_string(rank) + ": " + group.status().message();
  }
}

HostMeeting::~HostMeeting() = default;

void HostMeeting::StartOnLoop() {
  KF_DCHECK(loop_->InLoop());
  const auto allocate = [this](const std::vector<uint64_t>& counts) -> void* {
    const auto fits = [](uint64_t count) { return count == sizeof(DirectEndpoint); };
    return std::all_of(counts.begin(), counts.end(), fits) ? endpoints_.data() : nullptr;
  };
  run_(Gather("kungfu/the meeting of the host's peers", &mine_, sizeof(mine_), allocate, [this](const Status& status) {
    if (!status.ok()) return std::exchange(met_, nullptr)(status);
    OpenOnLoop();
  }));
}

// Who has no memory of its own says so itself; that the others cannot open it is no news.
void HostMeeting::OpenOnLoop() {
  KF_DCHECK(loop_->InLoop());
  const bool all = std::all_of(endpoints_.begin(), endpoints_.end(),
                               [](const DirectEndpoint& endpoint) { return endpoint.board.size > 0; });
  if (group_ && all) verdict_ = group_->MeetOnLoop(endpoints_).message();
  const auto allocate = [this](const std::vector<uint64_t>& counts) -> void* {
    verdicts_.resize(std::accumulate(counts.begin(), counts.end(), uint64_t{0}));
    return verdicts_.data();
  };
  run_(Gather("kungfu/the verdict of the host's peers", verdict_.data(), verdict_.size(), allocate,
              [this](const Status& status) {
                if (!status.ok()) return std::exchange(met_, nullptr)(status);
                JudgeOnLoop();
              }));
}

void HostMeeting::JudgeOnLoop() {
  KF_DCHECK(loop_->InLoop());
  if (!verdicts_.empty()) {
    if (rank_ == 0) KF_LOG(WARNING) << "the host's peers do not use each other's memory: " << verdicts_;
    group_ = nullptr;
  }
  std::exchange(met_, nullptr)(std::move(group_));
}

}  // namespace kungfu
