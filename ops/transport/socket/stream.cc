#include "ops/transport/socket/stream.h"

#include <utility>

#include "ops/base/logging.h"
#include "ops/transport/closed_by_peer.h"

namespace kungfu {
namespace {

constexpr Seconds kLivenessInterval{1};

}  // namespace

Stream::Stream(EventLoop* loop, std::unique_ptr<FramePipe> pipe, const PeerId& remote, LivenessCheck liveness)
    : loop_(loop),
      remote_(remote),
      liveness_(liveness),
      pipe_(std::move(pipe)),
      writer_(pipe_->alignment()),
      parser_(this) {}

void Stream::StartOnLoop(Connection* connection, ConnectionHandler* handler) {
  KF_DCHECK(loop_->InLoop());
  if (abandoned_) return;
  KF_CHECK(handler != nullptr) << "no handler for the connection to " << remote_.ToString();
  connection_ = connection;
  handler_ = handler;
  started_ = true;
  Watch();
  if (liveness_ != nullptr) CheckLiveness();
}

void Stream::AbandonOnLoop() {
  KF_DCHECK(loop_->InLoop());
  abandoned_ = true;
  connection_ = nullptr;
  handler_ = nullptr;
  reports_.clear();
  writer_.TakeUnwritten();
  ClosePipe();
}

StatusCallback* Stream::SendOnLoop(const FrameHeader& header, Payload payload) {
  KF_DCHECK(loop_->InLoop());
  KF_DCHECK(header.payload_size == TotalSize(payload));
  if (over_) return ReportSoon(why_);
  if (closing_) return ReportSoon(CancelledError("the connection is being closed by this peer"));
  const bool idle = writer_.empty();
  StatusCallback* const done = writer_.Push(header, std::move(payload));
  if (idle) Write();
  return writer_.empty() ? nullptr : done;
}

void Stream::CloseOnLoop(Deadline deadline) {
  KF_DCHECK(loop_->InLoop());
  if (over_ || closing_) return;
  closing_ = true;
  FrameHeader bye;
  bye.type = FrameType::kBye;
  const bool idle = writer_.empty();
  writer_.Push(bye, {});
  close_timer_ = loop_->RunAtOnLoop(deadline, [this] {
    close_timer_.reset();
    const auto self = shared_from_this();
    Finish(OkStatus());
  });
  if (idle) Write();
}

void Stream::BreakOnLoop(const Status& why) {
  KF_DCHECK(loop_->InLoop());
  if (!over_ && write_error_.ok()) BreakOff(why);
}

void Stream::OnReadyOnLoop(bool readable, bool writable_again) {
  KF_DCHECK(loop_->InLoop());
  const auto self = shared_from_this();
  if (writable_again) Write();
  if (readable && !over_ && !bye_received_) Read();
  const bool nothing_left = bye_received_ && !writable();
  if (!over_ && nothing_left) Finish(OkStatus());
}

void Stream::Write() {
  if (!write_error_.ok()) return;
  const Status status = pipe_->WriteOnLoop(&writer_);
  for (StatusCallback& done : writer_.TakeWritten()) *ReportSoon(OkStatus()) = std::move(done);
  if (!status.ok()) return BreakOff(status);
  if (writer_.empty() && closing_) pipe_->EndWritingOnLoop();
  Watch();
}

void Stream::BreakOff(const Status& why) {
  write_error_ = why;
  pipe_->BreakOnLoop();
  Watch();
}

void Stream::CheckLiveness() {
  liveness_timer_ = loop_->RunAtOnLoop(After(kLivenessInterval), [this] { CheckLiveness(); });
  const Status status = liveness_(pipe_->socket());
  if (!status.ok() && write_error_.ok()) BreakOff(status);
}

void Stream::Read() {
  bool ended = false;
  const Status status = pipe_->ReadOnLoop(&parser_, &ended);
  if (over_) return;
  if (bye_received_) {
    if (!closing_) return Finish(CancelledError("connection closed by the other peer"));
    Watch();
  } else if (!status.ok()) {
    Finish(status);
  } else if (ended) {
    Finish(write_error_.ok() ? ClosedByPeer() : write_error_);
  }
}

void Stream::Watch() {
  if (started_) pipe_->WatchOnLoop(this, !bye_received_, writable());
}

Status Stream::OnFrameOnLoop(const FrameHeader& header, Sink** sink) {
  KF_DCHECK(loop_->InLoop());
  if (header.type != FrameType::kBye) return handler_->OnFrameOnLoop(connection_, header, sink);
  bye_received_ = true;
  parser_.Stop();
  return OkStatus();
}

void Stream::OnFrameEndOnLoop(const FrameHeader& header) {
  KF_DCHECK(loop_->InLoop());
  handler_->OnFrameEndOnLoop(connection_, header);
}

StatusCallback* Stream::ReportSoon(const Status& status) {
  reports_.push_back({nullptr, status});
  if (!std::exchange(reports_posted_, true)) {
    loop_->Post([self = shared_from_this()] {
      self->reports_posted_ = false;
      self->RunReports();
    });
  }
  return &reports_.back().done;
}

void Stream::RunReports() {
  std::vector<Report> reports = std::move(reports_);
  reports_.clear();
  for (Report& report : reports) {
    if (report.done) report.done(report.status);
    if (abandoned_) return;
  }
  reports.clear();
  if (reports_.empty()) reports_ = std::move(reports);  // its memory, for the next ones
}

void Stream::Finish(Status why) {
  if (closing_) why = CancelledError("connection closed by this peer");
  why_ = why;
  ClosePipe();
  for (StatusCallback& done : writer_.TakeUnwritten()) reports_.push_back({std::move(done), why});
  RunReports();
  if (!abandoned_) handler_->OnClosedOnLoop(connection_, why);
}

void Stream::ClosePipe() {
  parser_.Stop();
  if (std::exchange(over_, true)) return;
  pipe_->CloseOnLoop();
  for (const auto& timer : {close_timer_, liveness_timer_}) {
    if (timer.has_value()) loop_->CancelTimerOnLoop(*timer);
  }
}

}  // namespace kungfu
