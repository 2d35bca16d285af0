// The line to the runner that started this peer: a Unix socket in a private directory, lines of text.
//
//   peer -> runner    hello <rank> <pid>     first
//                     alive                  every second: the process runs (a thread of ours says so, not Python)
//                     report <text>          an error that this peer has seen
//   runner -> peer    failed <rank> <text>   a peer of this host has failed
//                     left <rank>            it has ended well
//
// Lines end in '\n' and have at most 4096 bytes; control characters in texts are replaced by spaces.

#pragma once

#include <functional>
#include <string>

#include "ops/base/deadline.h"
#include "ops/base/status.h"
#include "ops/transport/event_loop.h"
#include "ops/transport/socket/unique_fd.h"

namespace kungfu {

// Lives on the event loop's thread.
class Control : private FdHandler {
 public:
  struct Handlers {
    std::function<void(int rank, const std::string& text)> peer_failed;
    std::function<void(int rank)> peer_left;
    // The runner is gone: nobody stops this peer any more but itself.
    std::function<void()> runner_lost;
  };

  Control(EventLoop* loop, std::string path, int rank, Handlers handlers);

  // Connects, within `patience`, and says hello. An error names the path.
  Status OpenOnLoop(Seconds patience);
  void ReportOnLoop(const std::string& text);
  void CloseOnLoop();

 private:
  void OnEventsOnLoop(uint32_t events) override;
  void BeatOnLoop();
  void Send(const std::string& line);
  void TakeLine(const std::string& line);
  void LostOnLoop();

  EventLoop* const loop_;
  const std::string path_;
  const int rank_;
  const Handlers handlers_;
  UniqueFd fd_;  // open: connected
  std::string received_;
  EventLoop::TimerId beat_{};
};

}  // namespace kungfu
