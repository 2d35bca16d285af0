// The agreement of a session's peers before its first operation: rank 0 decides the strategy, the chunks and the shared
// memory. Those of each host then try to use each other's memory (host_meeting.h), if the strategy is one that can.
// With AUTO rank 0 measures the costs of messages (link_probe.h), once all are there. The others wait for its choice,
// so all choose the same.

#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "ops/base/status.h"
#include "ops/collective/direct_group.h"
#include "ops/collective/host_meeting.h"
#include "ops/collective/link_probe.h"
#include "ops/collective/operation.h"
#include "ops/collective/pinger.h"
#include "ops/collective/ways.h"
#include "ops/memory/arena.h"
#include "ops/plan/cost.h"
#include "ops/plan/peer_list.h"
#include "ops/plan/strategy.h"
#include "ops/transport/event_loop.h"

namespace kungfu {

// The name of its first operation.
inline constexpr char kAgreementName[] = "kungfu/the start of the session";

// Lives on the event loop's thread.
class Agreement {
 public:
  // The proposal of this peer. Except for the arena, rank 0's values count.
  struct Means {
    StrategyName strategy = StrategyName::kAuto;
    uint64_t chunk_bytes = 0;
    bool direct = false;     // whether the peers of a host try to use each other's memory
    Arena* arena = nullptr;  // null: this one does not take part in that
    uint64_t direct_bytes = 0;
    bool exchanges = false;          // whether AUTO may do without a strategy where little is to be said
    std::optional<Choice> measured;  // by these peers before
  };
  // The terms that hold for all.
  struct Terms {
    Ways ways;
    std::optional<Choice> measured;  // what AUTO means for these peers, if it is known
    uint64_t chunk_bytes = 0;
    std::unique_ptr<DirectGroup> direct;  // of this host; null: there is none
  };
  // Runs an operation between the peers, which needs no strategy.
  using Run = std::function<void(Operation operation)>;
  // An error: the peers have not come together. May destroy the agreement.
  using Agreed = std::function<void(StatusOr<Terms> terms)>;

  // `loop`, `pinger` and `peers` must outlive it.
  Agreement(EventLoop* loop, Pinger* pinger, const PeerList& peers, int rank, const Means& means, Run run,
            Agreed agreed);
  ~Agreement();

  void StartOnLoop();

 private:
  // As it lies in memory on all peers.
  struct Proposal {
    Choice choice;
    uint64_t measures = 0;  // another choice follows
    uint64_t chunk_bytes = 0;
    uint64_t exchanges = 0;
    uint64_t direct = 0;  // the peers of each host try to use each other's memory
    uint64_t direct_bytes = 0;
  };

  void TellOnLoop(const std::string& name, void* data, size_t size, StatusCallback done);
  void ProposedOnLoop(const Status& status);
  void MeetOnLoop();
  void ChooseOnLoop();
  void TellChoiceOnLoop();
  void ChosenOnLoop();
  void FailOnLoop(const Status& why);
  void EndOnLoop(StatusOr<Terms> terms);

  EventLoop* const loop_;
  Pinger* const pinger_;
  const PeerList& peers_;
  const int rank_;
  const Means means_;
  const Run run_;
  Agreed agreed_;  // null once it was called

  Proposal proposal_;
  std::unique_ptr<LinkProbe> probe_;
  std::unique_ptr<HostMeeting> meeting_;
  Terms terms_;
};

}  // namespace kungfu
