#include "ops/collective/stall_watch.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "ops/base/logging.h"

namespace kungfu {
namespace {

// Larger sessions ask only the peers of whom something is awaited.
constexpr int kAskAll = 64;

Clock::duration ToDuration(Seconds seconds) { return std::chrono::duration_cast<Clock::duration>(seconds); }

std::string Duration(double seconds) {
  std::ostringstream out;
  out.precision(3);
  out << seconds << " s";
  return out.str();
}

}  // namespace

StallWatch::StallWatch(EventLoop* loop, Router* router, const PeerList& peers, int rank, Seconds warning,
                       Seconds silence, GiveUp give_up)
    : loop_(loop),
      router_(router),
      peers_(peers),
      rank_(rank),
      warning_(warning),
      silence_(silence),
      give_up_(std::move(give_up)) {}

StallWatch::~StallWatch() {
  if (scheduled_) loop_->CancelTimerOnLoop(timer_);
}

void StallWatch::AddOnLoop(RunningOperation* operation, Seconds timeout) {
  KF_DCHECK(loop_->InLoop());
  Watched& watched = watched_.emplace_back();
  watched.operation = operation;
  watched.deadline = operation->started() + ToDuration(timeout);
  watched.next_ask = std::min(operation->started() + ToDuration(kPatience), watched.deadline);
  Schedule(watched.next_ask);
}

void StallWatch::ProlongOnLoop(RunningOperation* operation, Seconds timeout) {
  KF_DCHECK(loop_->InLoop());
  Watched* const watched = Find(operation);
  if (!watched) return;
  watched->deadline = Clock::now() + ToDuration(timeout);
  watched->next_ask = std::min(Clock::now() + ToDuration(kPatience), watched->deadline);
  watched->asked = watched->expired = false;
  watched->first_asked = {};
  Schedule(watched->next_ask);
}

void StallWatch::RemoveOnLoop(RunningOperation* operation) {
  KF_DCHECK(loop_->InLoop());
  if (Watched* const watched = Find(operation)) watched_.erase(watched_.begin() + (watched - watched_.data()));
}

StallWatch::Watched* StallWatch::Find(const RunningOperation* operation) {
  const auto it = std::find_if(watched_.begin(), watched_.end(),
                               [&](const Watched& watched) { return watched.operation == operation; });
  return it == watched_.end() ? nullptr : &*it;
}

void StallWatch::OnAnswerOnLoop(const PeerId& from, const OperationId& id, const Status& answer) {
  KF_DCHECK(loop_->InLoop());
  for (Watched& watched : watched_) {
    if (watched.operation->id() == id) watched.answers[peers_.RankOf(from)] = answer;
  }
}

// One timer for all: operations that end in time, which is nearly all of them, cost none of their own.
void StallWatch::Schedule(Clock::time_point when) {
  if (scheduled_ && timer_.first <= when) return;
  if (scheduled_) loop_->CancelTimerOnLoop(timer_);
  scheduled_ = true;
  timer_ = loop_->RunAtOnLoop(when, [this] { TickOnLoop(); });
}

void StallWatch::TickOnLoop() {
  KF_DCHECK(loop_->InLoop());
  scheduled_ = false;
  const Clock::time_point now = Clock::now();
  std::vector<RunningOperation*> operations;
  for (const Watched& watched : watched_) operations.push_back(watched.operation);
  for (RunningOperation* operation : operations) {
    Watched* const watched = Find(operation);
    if (watched && !operation->failed()) Check(watched, now);
  }
  for (const Watched& watched : watched_) {
    if (!watched.operation->failed()) Schedule(watched.next_ask);
  }
}

// Asks when it has taken long; speaks when the peers have had time to answer.
void StallWatch::Check(Watched* watched, Clock::time_point now) {
  RunningOperation* const operation = watched->operation;
  if (now < watched->next_ask) return;
  const bool expired = now >= watched->deadline;
  if (!watched->asked || (expired && !watched->expired)) {
    Ask(watched);
    watched->expired = expired;
    watched->next_ask = After(kPatience);
    return;
  }
  watched->asked = false;
  const double waited = SecondsSince(operation->started());
  if (watched->expired) {
    operation->FailOnLoop(DeadlineExceededError(operation->title() + " at rank " + std::to_string(rank_) + " after " +
                                                Duration(waited) + ": " + Missing(*watched)),
                          /*tell=*/true);
    return;
  }
  const int silent = Silent(*watched, now);
  if (silent >= 0) {
    give_up_(silent, UnavailableError("does not answer for " + Duration(silence_.count())));
    return;
  }
  const bool warn = !watched->warned && waited >= warning_.count();
  if (warn) {
    KF_LOG(WARNING) << operation->title() << " at rank " << rank_ << " has taken " << Duration(waited) << ": "
                    << Missing(*watched);
  }
  watched->warned |= warn;
  const Clock::time_point next = watched->warned ? After(warning_) : operation->started() + ToDuration(warning_);
  watched->next_ask = std::min(std::max(next, now), watched->deadline);
}

void StallWatch::Ask(Watched* watched) {
  const RunningOperation* const operation = watched->operation;
  if (watched->first_asked == Clock::time_point{}) watched->first_asked = Clock::now();
  watched->asked = true;
  watched->answers.clear();
  std::vector<int> ranks = operation->AwaitedOnLoop();
  if (peers_.size() <= kAskAll) {
    ranks.clear();
    for (int rank = 0; rank < peers_.size(); ++rank) ranks.push_back(rank);
  }
  for (const int rank : ranks) {
    if (rank != rank_) router_->AskOnLoop(peers_[rank], operation->id(), operation->signature());
  }
}

int StallWatch::Silent(const Watched& watched, Clock::time_point now) const {
  for (const int rank : watched.operation->AwaitedOnLoop()) {
    if (!router_->ConnectedOnLoop(peers_[rank])) continue;
    const Clock::time_point heard = std::max(router_->LastHeardOnLoop(peers_[rank]), watched.first_asked);
    if (now - heard > silence_) return rank;
  }
  return -1;
}

std::string StallWatch::MissingOnLoop() const {
  KF_DCHECK(loop_->InLoop());
  for (const Watched& watched : watched_) {
    if (!watched.operation->AwaitedOnLoop().empty()) return Missing(watched);
  }
  return "nobody";
}

std::string StallWatch::Missing(const Watched& watched) const {
  const std::vector<int> awaited = watched.operation->AwaitedOnLoop();
  std::string text;
  int named = 0;
  const auto name = [&](int rank, const std::string& what) {
    if (++named > 8) return;
    if (!text.empty()) text += "; ";
    text += "rank " + std::to_string(rank) + " (" + peers_[rank].ToString() + ") " + what;
  };
  for (const auto& [rank, answer] : watched.answers) {
    if (answer.code() == Code::kNotFound) name(rank, "has not called it and " + answer.message());
  }
  for (const int rank : awaited) {
    if (watched.answers.count(rank) == 0) name(rank, "does not answer");
  }
  if (named > 8) text += "; and " + std::to_string(named - 8) + " more";
  if (named > 0) return text;
  const bool of_neighbors = IsOfNeighbors(watched.operation->signature().kind);
  for (const int rank : awaited) {
    name(rank, of_neighbors ? "has called it, and does not have this rank as a neighbour, or is slow"
                            : "has called it, and is slow");
  }
  return text.empty() ? "all peers have called it" : text;
}

}  // namespace kungfu
