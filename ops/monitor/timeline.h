// When the operations of a peer began and ended, in a file that chrome://tracing and ui.perfetto.dev open: a JSON array
// of trace events (the "Trace Event Format"), two of them for each operation.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ops/base/deadline.h"
#include "ops/base/status.h"
#include "ops/base/unique_fd.h"

namespace kungfu {

// One thread at a time.
class Timeline {
 public:
  // Makes the file; one that is there is replaced. The viewer shows the peer by its number and its label.
  static StatusOr<std::unique_ptr<Timeline>> Open(const std::string& path, int number, const std::string& label);
  ~Timeline();

  // Events reach the file within a second of the next one, or at the end.
  void Add(const std::string& name, Clock::time_point began, Clock::time_point ended, uint64_t bytes, bool ok);
  // Ends the array. Returns the first error of all that were met. REQUIRES: it was not called before.
  Status Close();

 private:
  Timeline(UniqueFd file, const std::string& path, int number);
  void Event(char phase, const std::string& name, Clock::time_point when, const std::string& rest);
  void Write();

  UniqueFd file_;
  const std::string path_;
  const int number_;
  const int64_t to_wall_clock_;  // in nanoseconds: so that the files of several peers fit together
  uint64_t next_id_ = 0;
  std::string buffer_;
  Clock::time_point written_;
  Status status_;
};

}  // namespace kungfu
