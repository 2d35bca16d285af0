// A connection at work: frames in both directions over one pipe, and its orderly end.
//
// It is held by its StreamConnection, and by the event loop while it runs a callback: so a handler may destroy the
// connection inside any of its callbacks. Everything is called on the event loop's thread.
//
// The end. Our side sends kBye behind the queue, and shuts the pipe for writing. Arriving bytes are still handed on
// until the other side has closed too. Closing with unread data would reset the connection, and bytes on their way to
// the other side would be lost. The other side's kBye: nothing can follow it, so we close at once. A send that fails
// breaks the pipe, and what had arrived before is still handed on: it may say why.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ops/transport/event_loop.h"
#include "ops/transport/socket/address_family.h"
#include "ops/transport/socket/frame_parser.h"
#include "ops/transport/socket/frame_pipe.h"
#include "ops/transport/socket/frame_writer.h"
#include "ops/transport/transport.h"

namespace kungfu {

class Stream : public std::enable_shared_from_this<Stream>, private PipeListener, private FrameReceiver {
 public:
  // `liveness` may be null.
  Stream(EventLoop* loop, std::unique_ptr<FramePipe> pipe, const PeerId& remote, LivenessCheck liveness);
  ~Stream() override = default;

  // Begins to receive. Ignored after AbandonOnLoop.
  // REQUIRES: otherwise, `handler` is not null.
  void StartOnLoop(Connection* connection, ConnectionHandler* handler);
  // Closes the pipe and makes no more calls.
  void AbandonOnLoop();

  // As in Connection.
  StatusCallback* SendOnLoop(const FrameHeader& header, Payload payload);
  void CloseOnLoop(Deadline deadline);
  void BreakOnLoop(const Status& why);
  const PeerId& remote() const { return remote_; }
  const char* pipe_name() const { return pipe_->name(); }
  uint64_t bytes_sent() const { return writer_.bytes_written(); }
  uint64_t bytes_received() const { return pipe_->bytes_read(); }

 private:
  struct Report {
    StatusCallback done;
    Status status;
  };

  void OnReadyOnLoop(bool readable, bool writable) override;
  Status OnFrameOnLoop(const FrameHeader& header, Sink** sink) override;
  void OnFrameEndOnLoop(const FrameHeader& header) override;

  void Write();
  void Read();
  // Now, and every second from now on.
  void CheckLiveness();
  // No more can be sent; what has arrived is still read.
  void BreakOff(const Status& why);
  void Watch();
  bool writable() const { return !writer_.empty() && write_error_.ok(); }

  // The callback that is put into the returned place is told of it soon, from the loop.
  StatusCallback* ReportSoon(const Status& status);
  void RunReports();

  // REQUIRES: called from the loop itself, not inside a call of the connection's owner.
  void Finish(Status why);
  void ClosePipe();

  EventLoop* const loop_;
  const PeerId remote_;
  const LivenessCheck liveness_;
  const std::unique_ptr<FramePipe> pipe_;
  FrameWriter writer_;
  FrameParser parser_;

  Connection* connection_ = nullptr;
  ConnectionHandler* handler_ = nullptr;
  bool abandoned_ = false;
  bool started_ = false;
  bool over_ = false;     // the pipe is closed
  bool closing_ = false;  // CloseOnLoop was called
  bool bye_received_ = false;
  std::optional<EventLoop::TimerId> close_timer_, liveness_timer_;
  Status write_error_;
  Status why_;  // it is over
  std::vector<Report> reports_;
  bool reports_posted_ = false;
};

}  // namespace kungfu
