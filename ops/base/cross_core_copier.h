// Copies into memory that another core reads, again and again at the same places.
//
// If the two cores share a cache, plain stores are best: the other core finds the data there. Otherwise each plain
// store waits until its line is taken from the other core, which has read it last. On AMD's EPYC that takes five times
// as long as the whole copy should. Stores past the caches do not wait. No interface tells reliably which cores share
// one, and schedulers and hypervisors move threads. So the copier tries both kinds of stores, and measures the time.

#pragma once

#include <array>
#include <cstddef>

#include "ops/base/copy.h"
#include "ops/base/deadline.h"

namespace kungfu {

// Which stores are to be used, by what copies with them have taken.
class StoreChoice {
 public:
  enum Stores { kPlain, kPastCaches };

  // `worth`: the factor by which plain stores must be slower, as reading data that went past the caches is slower, too.
  explicit StoreChoice(double worth = 2) : worth_(worth) {}

  // For the next copy that is timed: now and then the others, to see what has changed.
  Stores Next();
  // For one that is not.
  Stores best() const { return best_; }
  void Took(Stores stores, size_t bytes, Seconds time);

 private:
  // Timed copies from one try of the other stores to the next: more and more as long as nothing changes.
  static constexpr int kFewest = 4, kMost = 64;

  double CostOf(Stores stores) const;

  const double worth_;
  Stores best_ = kPlain;
  int until_try_ = kFewest;
  int between_ = kFewest;
  // Seconds per byte of the last two timed copies, by Stores. The lower counts: a thread that is interrupted is slow
  // with any stores. They begin at 0: a kind that was not tried twice counts as free.
  std::array<std::array<double, 2>, 2> costs_ = {};
};

// One thread at a time.
class CrossCoreCopier {
 public:
  // Shorter copies are not worth the clock: they go as the longer ones have shown.
  static constexpr size_t kTimed = 8 << 10;

  // Other functions than these are for tests.
  explicit CrossCoreCopier(CopyFunction plain = CopyBytes, CopyFunction past_caches = CopyPastCaches)
      : copies_{plain, past_caches} {}

  // The stores are visible to a thread that sees a later store with release order.
  void Copy(char* to, const char* from, size_t size);

 private:
  // Shorter ones are made with plain stores.
  static constexpr size_t kShort = 1 << 10;
  // Nor is each of the longer ones worth the clock: so many go between two that are timed.
  static constexpr int kUntimed = 3;

  std::array<CopyFunction, 2> copies_;  // by Stores
  StoreChoice choice_;
  int untimed_ = 0;  // since the last one that was
};

}  // namespace kungfu
