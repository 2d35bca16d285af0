// A pipe of two rings, one for each direction. The Unix socket over which the two processes have met stays open beside
// them. A byte on it wakes the other process, and its end is the end of that process.

#pragma once

#include <optional>

#include "ops/base/unique_fd.h"
#include "ops/transport/event_loop.h"
#include "ops/transport/shm/ring.h"
#include "ops/transport/shm/segment.h"
#include "ops/transport/socket/frame_pipe.h"

namespace kungfu {

class RingPipe : public FramePipe, private FdHandler, private Pollable {
 public:
  // Of the segment that two processes share. The peer that has opened the connection sends the data of collectives over
  // it; small frames come back.
  static size_t SegmentSize();

  // `opened_here`: this process has opened the connection, the other one has accepted it.
  RingPipe(EventLoop* loop, UniqueFd socket, Segment segment, bool opened_here);
  ~RingPipe() override { CloseOnLoop(); }

  const char* name() const override { return "shm"; }
  size_t alignment() const override { return kLine; }
  void WatchOnLoop(PipeListener* listener, bool read, bool write) override;
  Status WriteOnLoop(FrameWriter* frames) override;
  Status ReadOnLoop(FrameParser* frames, bool* ended) override;
  uint64_t bytes_read() const override { return reader_.bytes_read(); }
  int socket() const override { return socket_.get(); }
  void EndWritingOnLoop() override {}
  void BreakOnLoop() override;
  void CloseOnLoop() override;

 private:
  void OnEventsOnLoop(uint32_t events) override;
  bool PollOnLoop() override;
  bool SleepOnLoop() override;
  void WakeOnLoop() override;
  void Call();

  // The time in which a sleeping side may wake by itself: a fraction of the cost of waking it.
  static constexpr Seconds kPatience{5e-6};

  EventLoop* const loop_;
  UniqueFd socket_;
  const Segment segment_;
  Bell bell_;
  RingWriter writer_;
  RingReader reader_;
  PipeListener* listener_ = nullptr;
  bool reads_ = false, writes_ = false;  // the event that the listener waits for
  bool ended_ = false;                   // the other process has closed the socket
  std::optional<Deadline> call_at_;      // the other process, unless it wakes
};

}  // namespace kungfu
