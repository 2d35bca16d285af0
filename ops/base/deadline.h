// A point in time after which a wait ends.

#pragma once

#include <chrono>

namespace kungfu {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;
using Seconds = std::chrono::duration<double>;

inline Deadline After(Seconds seconds) { return Clock::now() + std::chrono::duration_cast<Clock::duration>(seconds); }

inline double SecondsSince(Clock::time_point start) { return Seconds(Clock::now() - start).count(); }

}  // namespace kungfu
