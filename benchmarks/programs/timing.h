// What the programs of this folder have in common: how often something is measured, and what is reported of it.

#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

// The same number in every process: enough for a median.
inline int Repetitions(size_t bytes) {
  return static_cast<int>(std::clamp<size_t>((size_t{400} << 20) / std::max<size_t>(bytes, 1), 11, 301));
}

// `begin` brings the processes together before each repetition.
template <typename Begin, typename Run>
double MedianSeconds(size_t bytes, Begin begin, Run run) {
  const int repetitions = Repetitions(bytes);
  std::vector<double> seconds;
  for (int i = -repetitions / 5; i < repetitions; ++i) {
    begin();
    const auto start = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (i >= 0) seconds.push_back(elapsed.count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + repetitions / 2, seconds.end());
  return seconds[repetitions / 2];
}
