// How two peers that have met over a Unix socket come to share memory.
//
//   client -> server   offer  := 'R' and the descriptor of a segment, or 'S': none, the socket carries the data
//   server -> client   answer := 'R' it is mapped, or 'S'
//
// Both follow the handshake, so the other side is a peer of the job.

#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ops/base/deadline.h"
#include "ops/base/unique_fd.h"
#include "ops/transport/event_loop.h"
#include "ops/transport/shm/segment.h"
#include "ops/transport/socket/stream_transport.h"

namespace kungfu {

// Event loop only. Destroying it closes the socket and makes no calls.
class RingAgreement : public PipeAgreement, private FdHandler {
 public:
  // Asked when there is no shared memory, because of `why`: whether the socket will do, which is called "unix" then.
  using Without = std::function<Status(const std::string& why)>;

  RingAgreement(EventLoop* loop, UniqueFd socket, bool opened_here, Deadline deadline,
                std::shared_ptr<ReadScratch> scratch, Without without, Callback done);
  ~RingAgreement() override;
  RingAgreement(const RingAgreement&) = delete;
  RingAgreement& operator=(const RingAgreement&) = delete;

 private:
  void OnEventsOnLoop(uint32_t events) override;
  Status SendOffer();
  Status TakeOffer();
  Status TakeAnswer();
  void Finish(const Status& status);

  EventLoop* const loop_;
  UniqueFd socket_;
  const bool opened_here_;
  const std::shared_ptr<ReadScratch> scratch_;
  const Without without_;
  Callback done_;
  EventLoop::TimerId timer_;
  Segment segment_;  // empty: the socket carries the data
  bool over_ = false;
};

}  // namespace kungfu
