#include "ops/collective/link_probe.h"

#include <cmath>
#include <utility>
#include <vector>

namespace kungfu {
namespace {

// The first two fill a ring of shared memory (transport/shm/), whose pages are slow when they are touched first.
constexpr int kTurns = 6;

struct ProbeKind {
  int at_once;
  size_t filler;
  int times;
  std::vector<double> LinkSamples::* samples;
};
constexpr ProbeKind kProbes[] = {{1, 0, 2, &LinkSamples::single},
                                 {LinkSamples::kAtOnce, 0, 1, &LinkSamples::many},
                                 {LinkSamples::kAtOnce, LinkSamples::kFiller, 1, &LinkSamples::full}};
constexpr int kNumProbes = std::size(kProbes);

}  // namespace

LinkProbe::LinkProbe(Pinger* pinger, const PeerList& peers, int rank) : pinger_(pinger) {
  const std::vector<int> hosts = peers.HostOfRanks();
  for (int other = peers.size() - 1; other >= 0; --other) {
    if (other != rank) (hosts[other] == hosts[rank] ? local_ : remote_) = other;
  }
}

void LinkProbe::StartOnLoop(Done done) {
  done_ = std::move(done);
  MeasureOnLoop(local_, kWithinAHost, [this](const std::optional<LinkEstimate>& local) {
    estimates_.local = local;
    MeasureOnLoop(remote_, kBetweenHosts, [this](const std::optional<LinkEstimate>& remote) {
      estimates_.remote = remote;
      const LinkEstimates estimates = std::move(estimates_);
      std::exchange(done_, nullptr)(estimates);
    });
  });
}

void LinkProbe::MeasureOnLoop(int rank, const LinkBounds& bounds, Next next) {
  if (rank < 0) return next(std::nullopt);
  link_ = {rank, bounds, {}, After(Seconds(bounds.patience)), std::move(next)};
  AskOnLoop(0);
}

void LinkProbe::AskOnLoop(int question) {
  const ProbeKind& kind = kProbes[question % kNumProbes];
  const auto answered = [this, alive = std::weak_ptr<int>(alive_), question,
                         &kind](const std::vector<double>& by_rank) {
    if (alive.expired()) return;
    const double seconds = by_rank[link_.rank];
    (link_.samples.*kind.samples).push_back(seconds);
    const bool is_in_time = std::isfinite(seconds) && Clock::now() < link_.deadline;
    if (is_in_time && question + 1 < kTurns * kNumProbes) return AskOnLoop(question + 1);
    std::exchange(link_.next, nullptr)(Estimate(link_.samples, link_.bounds));
  };
  pinger_->PingOnLoop({{link_.rank}, kind.at_once, kind.filler, kind.times}, link_.deadline, answered);
}

}  // namespace kungfu
