// Measures how long a question to other peers takes until its answer is here. Both are handled by the event loops,
// so it is what a small message of a collective takes.

#pragma once

#include <functional>
#include <list>
#include <string>
#include <vector>

#include "ops/base/deadline.h"
#include "ops/plan/peer_list.h"
#include "ops/router/router.h"
#include "ops/transport/event_loop.h"

namespace kungfu {

// Lives on the event loop's thread.
class Pinger {
 public:
  // Seconds for each rank: 0 for this one, infinity for a peer that was not asked, or has not answered in time.
  using Done = std::function<void(const std::vector<double>& seconds)>;
  struct Questions {
    std::vector<int> ranks;  // the peers that are asked, each independently
    int at_once = 1;         // so many, one behind the other; the time is that until the last answer
    size_t filler = 0;       // bytes that each carries along
    int times = 4;           // the shortest counts: the first may have to open the connection
  };

  // `prefix`: of the names of all operations between these peers.
  Pinger(EventLoop* loop, Router* router, const PeerList& peers, int rank, uint32_t epoch, const std::string& prefix)
      : loop_(loop), router_(router), peers_(peers), rank_(rank), epoch_(epoch), name_(prefix + "kungfu/ping") {}

  // Asks, and again when all is answered. Rounds may overlap.
  void PingOnLoop(const Questions& questions, Deadline deadline, Done done);
  // Takes an answer; false: it is not to a question of ours.
  bool OnAnswerOnLoop(const PeerId& from, const OperationId& id);
  // Ends pending rounds with the answers so far.
  void CloseOnLoop();

 private:
  struct Round {
    uint64_t number;
    Questions questions;
    std::vector<double> best;
    std::vector<int> left;  // answers that each rank still has to give
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
  const std::string name_;

  uint64_t next_ = 0;
  std::list<Round> rounds_;
};

}  // namespace kungfu
