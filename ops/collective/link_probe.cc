#include "ops/collective/link_probe.h"

#include <cmath>
#include <utility>
#include <vector>

namespace kungfu {
namespace {

constexpr Seconds kPatience{25e-3};  // for one link
// Those of the first turn touch the rings of shared memory for the first time, whose pages are slow then.
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
      std::exchange(done_, nullptr)(estimates_);
    });
  });
}

void LinkProbe::MeasureOnLoop(int rank, const LinkBounds& bounds, Next next) {
  if (rank < 0) return next(std::nullopt);
  link_ = {rank, bounds, {}, After(kPatience), std::move(next)};
  AskOnLoop(0);
}

void LinkProbe::AskOnLoop(int question) {
  const ProbeKind& kind = kProbes[question % kNumProbes];
  const auto answered = [this, alive = std::weak_ptr<int>(alive_), question,
                         &kind](const std::vector<double>& by_rank) {
    if (alive.expired()) return;
    const double seconds = by_rank[link_.rank];
    (link_.samples.*kind.samples).push_back(seconds);
    if (std::isfinite(seconds) && question + 1 < kTurns * kNumProbes) return AskOnLoop(question + 1);
    std::exchange(link_.next, nullptr)(Estimate(link_.samples, link_.bounds));
  };
  pinger_->PingOnLoop({{link_.rank}, kind.at_once, kind.filler, kind.times}, link_.deadline, answered);
}

}  // namespace kungfu
