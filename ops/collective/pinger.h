// Measures how long a question to each other peer takes until its answer is here. Both are handled by the event loops,
// so it is what a small message of a collective takes.

#pragma once

#include <functional>
#include <list>
#include <vector>

#include "ops/base/deadline.h"
#include "ops/plan/peer_list.h"
#include "ops/router/router.h"
#include "ops/transport/event_loop.h"

namespace kungfu {

// Lives on the event loop's thread.
class Pinger {
 public:
  // Seconds for each rank: 0 for this one, infinity for who has not answered in time.
  using Done = std::function<void(const std::vector<double>& seconds)>;

  Pinger(EventLoop* loop, Router* router, const PeerList& peers, int rank, uint32_t epoch)
      : loop_(loop), router_(router), peers_(peers), rank_(rank), epoch_(epoch) {}

  // Asks each peer several times, one question after the other, and keeps the shortest time: the first may have to open
  // the connection. Rounds may overlap.
  void PingOnLoop(Deadline deadline, Done done);
  // Takes an answer; false: it is not to a question of ours.
  bool OnAnswerOnLoop(const PeerId& from, const OperationId& id);
  // Ends what is under way with what there is.
  void CloseOnLoop();

 private:
  struct Round {
    uint64_t number;
    std::vector<double> best;
    std::vector<int> left;  // questions to each rank that have no answer yet
    std::vector<Clock::time_point> asked;
    int waiting;  // ranks that have some left
    EventLoop::TimerId timer;
    Done done;
  };

  void Ask(Round* round, int rank);
  void Finish(uint64_t number);

  EventLoop* const loop_;
  Router* const router_;
  const PeerList& peers_;
  const int rank_;
  const uint32_t epoch_;

  uint64_t next_ = 0;
  std::list<Round> rounds_;
};

}  // namespace kungfu
