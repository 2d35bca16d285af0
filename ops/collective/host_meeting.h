// How the peers of one host come to use each other's memory: each tells all where its memory is, tries to open that of
// the others, and tells all how it went. They do it together or not at all.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/collective/direct_group.h"
#include "ops/collective/operation.h"
#include "ops/transport/event_loop.h"

namespace kungfu {

// Lives on the event loop's thread.
class HostMeeting {
 public:
  // Runs an operation between the peers.
  using Run = std::function<void(Operation operation)>;
  // The group, or null where some peer cannot take part; rank 0 has then said why in the log. An error: the peers have
  // not come together. May destroy the meeting.
  using Met = std::function<void(StatusOr<std::unique_ptr<DirectGroup>> group)>;

  // `arena` may be null: this peer does not take part, which the others have to be told.
  HostMeeting(EventLoop* loop, Arena* arena, int rank, int size, Run run, Met met);
  ~HostMeeting();

  void StartOnLoop();

 private:
  void OpenOnLoop();
  void JudgeOnLoop();

  EventLoop* const loop_;
  const int rank_;
  const Run run_;
  Met met_;  // null once it was called
  std::unique_ptr<DirectGroup> group_;
  std::string verdict_;  // why this peer cannot take part; empty if it can

  DirectEndpoint mine_;
  std::vector<DirectEndpoint> endpoints_;
  std::string verdicts_;
};

}  // namespace kungfu
