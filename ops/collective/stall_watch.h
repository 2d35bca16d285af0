// Watches operations that take long. It asks the other peers about them, names the missing peers, and ends operations
// that have passed their deadline or wait for a silent peer.

#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ops/base/deadline.h"
#include "ops/collective/running_operation.h"
#include "ops/router/router.h"
#include "ops/transport/event_loop.h"

namespace kungfu {

// Lives on the event loop's thread.
class StallWatch {
 public:
  // `give_up` is called for a peer that answers nothing.
  using GiveUp = std::function<void(int rank, const Status& why)>;
  StallWatch(EventLoop* loop, Router* router, const PeerList& peers, int rank, Seconds warning, Seconds silence,
             GiveUp give_up);
  ~StallWatch();

  void AddOnLoop(RunningOperation* operation, Seconds timeout);
  // Gives it so much time from now on.
  void ProlongOnLoop(RunningOperation* operation, Seconds timeout);
  void RemoveOnLoop(RunningOperation* operation);
  void OnAnswerOnLoop(const PeerId& from, const OperationId& id, const Status& answer);

  // The peers that a watched operation waits for, in words.
  std::string MissingOnLoop() const;

 private:
  struct Watched {
    RunningOperation* operation;
    Deadline deadline;
    Clock::time_point next_ask;
    Clock::time_point first_asked{};
    bool asked = false;
    bool warned = false;
    bool expired = false;
    std::map<int, Status> answers;  // by rank: of the last time that it was asked
  };

  // How long an operation may take before the others are asked, and how long they have to answer.
  static constexpr Seconds kPatience{1};

  void TickOnLoop();
  void Schedule(Clock::time_point when);
  Watched* Find(const RunningOperation* operation);
  void Ask(Watched* watched);
  void Check(Watched* watched, Clock::time_point now);
  // The connected ranks of whom nothing was heard since they were asked, for too long.
  int Silent(const Watched& watched, Clock::time_point now) const;
  // "rank 3 (…) has not called it and waits in all_reduce 'y'; rank 2 (…) does not answer"
  std::string Missing(const Watched& watched) const;

  EventLoop* const loop_;
  Router* const router_;
  const PeerList& peers_;
  const int rank_;
  const Seconds warning_;
  const Seconds silence_;
  const GiveUp give_up_;

  std::vector<Watched> watched_;  // oldest first
  EventLoop::TimerId timer_{};
  bool scheduled_ = false;
};

}  // namespace kungfu
