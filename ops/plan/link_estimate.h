// Estimates the costs of messages over a link from the times between questions and answers.
//
// A question and its answer are two messages. With kAtOnce questions in a row each end receives one and sends one for
// each more. So with the figures of cost.h
//
//   single   one question                              2 (latency + overhead)
//   many     kAtOnce of them                           single + 2 (kAtOnce - 1) overhead
//   full     as many, each with kFiller bytes          many + kAtOnce kFiller per_byte
//
// Load can only add to that: a peer that waits for a core answers some milliseconds later. So the shortest time of each
// kind counts, if it is no longer than a link can take. A figure that no link can have is no measurement: if one kind
// was late, a difference is negative, or huge.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ops/plan/cost.h"

namespace kungfu {

// Seconds, in any order; infinity: not answered in time.
struct LinkSamples {
  static constexpr int kAtOnce = 8;
  static constexpr uint64_t kFiller = 32 << 10;
  std::vector<double> single, many, full;
};

// The bounds of possible figures, both ends included, and the time limit for the measurement.
struct LinkBounds {
  LinkCost least, most;
  double patience;
};
// A processor copies no more than 100 GB/s. Within a host a time many times longer than waking a thread, or a rate
// below 500 MB/s, means that another process had the core.
inline constexpr LinkBounds kWithinAHost{{1e-7, 1e-8, 1e-11}, {2e-4, 5e-5, 2e-9}, 25e-3};
inline constexpr LinkBounds kBetweenHosts{{1e-7, 1e-8, 1e-11}, {0.25, 1e-3, 2e-6}, 2};

// Nothing: it was not to be measured.
struct LinkEstimate {
  std::optional<double> latency, overhead, per_byte;

  // With `usual` figures where there are none.
  LinkCost Or(const LinkCost& usual) const;
  // "7.8 us, 0.4 us at each end, 3333 MB/s (assumed)"
  std::string ToString(const LinkCost& usual) const;
};

LinkEstimate Estimate(const LinkSamples& samples, const LinkBounds& bounds);

// The estimates of the kinds of links that a session has.
struct LinkEstimates {
  std::optional<LinkEstimate> local, remote;

  LinkCosts Costs() const;
  // "messages within a host take …; between hosts …"
  std::string ToString() const;
};

}  // namespace kungfu
