// What a model needs: a checker that runs it in many orders of its threads' steps, in which each load returns any value
// that C++ allows. Processors with a weak order of memory do no worse. The checker is Relacy, Debian's relacy-dev.

#pragma once

#include <cstdio>
#include <iostream>
#include <relacy/relacy.hpp>

namespace kungfu::models {

// A thread of another process, or of this one, that sleeps until it is woken. A call is not lost if it is awake.
class Sleeper {
 public:
  void Begin() { event_ = CreateEvent(nullptr, false, false, nullptr); }
  void End() { CloseHandle(event_); }
  void AwaitCall() { WaitForSingleObject(event_, INFINITE); }
  void Call() { SetEvent(event_); }

 private:
  HANDLE event_;
};

// Whether the checker finds just that: rl::test_result_success, data_race (bytes that are read while they are written),
// deadlock (nobody wakes a sleeper), or user_assert_failed.
template <typename Model>
bool Finds(rl::test_result_e expected, const char* name) {
  rl::test_params params;
  params.search_type = rl::sched_random;
  params.iteration_count = 20'000;
  std::ostream nowhere(nullptr);
  params.output_stream = params.progress_stream = &nowhere;
  rl::simulate<Model>(params);
  const bool is_right = params.test_result == expected;
  std::printf("%s %s: %s\n", is_right ? "ok" : "FAILED", name, rl::test_result_str(params.test_result));
  if (is_right) return true;
  params.output_stream = &std::cout;
  rl::simulate<Model>(params);  // again, with all steps
  return false;
}

}  // namespace kungfu::models
