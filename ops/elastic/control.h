// The line to the runner that started this peer: a Unix socket in a private directory, lines of text.
//
//   peer -> runner    hello <peer> <pid>          first; <peer> is KUNGFU_SELF
//                     alive                       every second: the process runs (a thread of ours says so, not Python)
//                     begun                       an operation of the program has succeeded; once
//                     report <text>               an error that this peer has seen
//                     ready                       a newcomer asks to be taken in
//                     entered <version>           this peer has gone over to a membership
//                     propose [<size>]            asks for another number of peers, or for the one that the config
//                                                 server says; every question has its answer
//                     notice                      has got SIGTERM: asks whether it may leave, and the others go on
//                     leave                       is between two steps, and leaves
//                     broken <version>            a connection with a peer of that membership has ended without a
//                                                 goodbye; both may live
//   runner -> peer    failed <peer> <text>        a peer has failed
//                     left <peer>                 it has ended well
//                     members <version> <since> <peers>
//                                                 who takes part from now on; "-": nobody. Instead of whom it said in
//                                                 versions from <since> on, where nobody has met; else the same number
//                     survivors <version> <since> <peers> <text>
//                                                 the peers that are left, after others were lost: they go on at once,
//                                                 and repeat what they had begun; why. <since>: that of the newest
//                                                 members; who is on the way to them comes here instead
//                     anew <version>              before such a line of that version: the peers make all connections
//                     with
//                                                 each other anew, because one broke
//                     proposed | refused <text>   the answer to the oldest question
//
// Lines end in '\n' and have at most 64 KiB; control characters in texts are replaced by spaces.

#pragma once

#include <functional>
#include <list>
#include <optional>
#include <string>

#include "ops/base/deadline.h"
#include "ops/base/status.h"
#include "ops/base/unique_fd.h"
#include "ops/elastic/membership.h"
#include "ops/plan/peer_id.h"
#include "ops/transport/event_loop.h"

namespace kungfu {

// Lives on the event loop's thread.
class Control : private FdHandler {
 public:
  struct Handlers {
    std::function<void(const PeerId& peer, const std::string& text)> peer_failed;
    std::function<void(const PeerId& peer)> peer_left;
    std::function<void(const Membership& membership)> members;
    std::function<void(const Membership& membership, const std::string& text)> survivors;
    std::function<void(uint32_t version)> anew;
    // The runner is gone: only this peer can stop itself now.
    std::function<void()> runner_lost;
  };

  Control(EventLoop* loop, std::string path, const PeerId& self, Handlers handlers);
  ~Control() override;

  // Connects, within `patience`, and says hello. An error names the path.
  Status OpenOnLoop(Seconds patience);
  void BegunOnLoop();
  void ReportOnLoop(const std::string& text);
  void ReadyOnLoop();
  void EnteredOnLoop(uint32_t version);
  void BrokenOnLoop(uint32_t version);
  // The questions. `answered` is called once: OK if the runner takes it up; the membership follows. kDeadlineExceeded
  // if it does not say within `patience`. Without a size: the number that the config server says.
  void ProposeOnLoop(std::optional<int> size, Seconds patience, StatusCallback answered);
  // Whether this peer may leave: OK, or kFailedPrecondition, if the job ends instead.
  void NoticeOnLoop(Seconds patience, StatusCallback answered);
  // OK: the list of those that go on has come before. kFailedPrecondition: as above.
  void LeaveOnLoop(Seconds patience, StatusCallback answered);
  // Questions that are open fail with kUnavailable.
  void CloseOnLoop();

 private:
  struct Question {
    StatusCallback answered;  // null when time was up: the answer may still come
    EventLoop::TimerId timer;
  };

  void OnEventsOnLoop(uint32_t events) override;
  void BeatOnLoop();
  void Ask(const std::string& line, Seconds patience, StatusCallback answered);
  // Returns whether it was sent.
  bool Send(const std::string& line);
  void TakeLine(const std::string& line);
  bool Understood(const std::string& command, const std::string& rest);
  bool Answered(const Status& answer);
  void LostOnLoop();
  static void Answer(Question* question, const Status& answer);

  EventLoop* const loop_;
  const std::string path_;
  const PeerId self_;
  const Handlers handlers_;
  UniqueFd fd_;  // open: connected
  std::string received_;
  EventLoop::TimerId beat_{};
  std::list<Question> questions_;  // in the order of their answers
};

}  // namespace kungfu
