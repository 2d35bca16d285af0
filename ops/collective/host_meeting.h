// The protocol by which peers of one host come to use each other's memory. Each tells all where its memory is, tries to
// open the memory of the others, and tells all the outcome. They do it together or not at all. The hosts of a session
// do it at the same time, independently.
//
// Cost: two all-reduces of a few KiB along a star within the host.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/collective/direct_group.h"
#include "ops/collective/operation.h"
#include "ops/plan/peer_list.h"
#include "ops/transport/event_loop.h"

namespace kungfu {

// Lives on the event loop's thread.
class HostMeeting {
 public:
  // Runs an operation between the peers.
  using Run = std::function<void(Operation operation)>;
  // The group, or null where some peer of the host cannot take part; its first one has then said why in the log. An
  // error: the peers have not come together. May destroy the meeting.
  using Met = std::function<void(StatusOr<std::unique_ptr<DirectGroup>> group)>;

  // Whether the peers of this rank's host meet: where there are several, and not too many.
  static bool HasPlace(const PeerList& peers, int rank);
  // If they are too many, the host's first peer says so in the log.
  static void SayIfTooMany(const PeerList& peers, int rank);
  // Whether some host's peers use each other's memory, as far as this rank can tell; `met`: the peers of its own host
  // do. The outcome of its own host is taken to hold for the others. A rank that is alone on its host, or one of too
  // many, cannot know. It assumes that peers that meet succeed.
  static bool SomeMeet(const PeerList& peers, int rank, bool met);

  // `arena` may be null: this peer does not take part, which the others have to be told. REQUIRES: HasPlace.
  HostMeeting(EventLoop* loop, Arena* arena, const PeerList& peers, int rank, Run run, Met met);
  ~HostMeeting();

  void StartOnLoop();

 private:
  // Tells the host's other peers something of at most `most` bytes; then `next`: the words of each are in `said_`.
  void ShareOnLoop(const std::string& name, const void* data, size_t size, size_t most, std::function<void()> next);
  void OpenOnLoop();
  void JudgeOnLoop();

  EventLoop* const loop_;
  const Run run_;
  Met met_;                   // null once it was called
  std::vector<int> parents_;  // by rank: the middle of its host's star
  std::vector<int> ranks_;    // of this host
  int place_ = 0;             // of this peer among them
  std::unique_ptr<DirectGroup> group_;
  std::string verdict_;  // why this peer cannot take part; empty if it can

  DirectEndpoint mine_;
  std::vector<char> said_;  // by place, equally many bytes of each
};

}  // namespace kungfu
