#include "ops/collective/link_probe.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kungfu {
namespace {

constexpr Seconds kPatience{10e-3};  // for one series
constexpr int kBurst = 8;
constexpr size_t kFiller = kMaxEagerSize;
// What is too fast to be measured costs at least this.
constexpr double kLeastSeconds = 1e-7, kLeastPerByte = 1e-12;

// The long questions go once around the rings of shared memory, whose pages are slow when they are touched first.
struct Series {
  int at_once;
  size_t filler;
  int times;
};
constexpr size_t kSingle = 0, kMany = 1, kLong = 2;
constexpr Series kSeries[] = {{1, 0, 8}, {kBurst, 0, 4}, {1, kFiller, 12}};

}  // namespace

LinkProbe::LinkProbe(Pinger* pinger, const PeerList& peers, int rank) : pinger_(pinger) {
  const std::vector<int> hosts = peers.HostOfRanks();
  for (int other = peers.size() - 1; other >= 0; --other) {
    if (other != rank) (hosts[other] == hosts[rank] ? local_ : remote_) = other;
  }
}

void LinkProbe::StartOnLoop(Done done) {
  done_ = std::move(done);
  AskOnLoop(0);
}

void LinkProbe::AskOnLoop(size_t series) {
  if (series == std::size(kSeries)) {
    const LinkCosts usual;
    std::exchange(done_, nullptr)({CostOf(local_, usual.local), CostOf(remote_, usual.remote)});
    return;
  }
  Pinger::Questions questions;
  for (const int rank : {local_, remote_}) {
    if (rank >= 0) questions.ranks.push_back(rank);
  }
  questions.at_once = kSeries[series].at_once;
  questions.filler = kSeries[series].filler;
  questions.times = kSeries[series].times;
  const auto answered = [this, alive = std::weak_ptr<int>(alive_), series](const std::vector<double>& seconds) {
    if (alive.expired()) return;
    seconds_.push_back(seconds);
    AskOnLoop(series + 1);
  };
  pinger_->PingOnLoop(questions, After(kPatience), answered);
}

// A question and its answer are two messages. Of several at once each end takes one and sends one for each more.
LinkCost LinkProbe::CostOf(int rank, const LinkCost& otherwise) const {
  if (rank < 0) return otherwise;
  const double single = seconds_[kSingle][rank], many = seconds_[kMany][rank], full = seconds_[kLong][rank];
  if (std::isinf(single) || std::isinf(many) || std::isinf(full)) return otherwise;
  LinkCost cost;
  cost.overhead = std::max(kLeastSeconds, (many - single) / (2 * (kBurst - 1)));
  cost.latency = std::max(kLeastSeconds, single / 2 - cost.overhead);
  cost.per_byte = std::max(kLeastPerByte, (full - single) / static_cast<double>(kFiller));
  return cost;
}

}  // namespace kungfu
