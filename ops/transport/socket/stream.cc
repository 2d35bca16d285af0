#include "ops/transport/socket/stream.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <utility>

#include "ops/base/logging.h"

namespace kungfu {
namespace {

constexpr Seconds kLivenessInterval{1};

}  // namespace

Stream::Stream(EventLoop* loop, UniqueFd fd, const PeerId& remote, LivenessCheck liveness,
               std::shared_ptr<ReadScratch> scratch)
    : loop_(loop), remote_(remote), liveness_(liveness), fd_(std::move(fd)), reader_(std::move(scratch), this) {}

void Stream::StartOnLoop(Connection* connection, ConnectionHandler* handler) {
  KF_DCHECK(loop_->InLoop());
  if (abandoned_) return;
  KF_CHECK(handler != nullptr) << "nobody handles the connection to " << remote_.ToString();
  connection_ = connection;
  handler_ = handler;
  watched_events_ = EPOLLIN;
  loop_->WatchOnLoop(fd_.get(), *watched_events_, this);
  UpdateEvents();
  if (liveness_ != nullptr) CheckLiveness();
}

void Stream::AbandonOnLoop() {
  KF_DCHECK(loop_->InLoop());
  abandoned_ = true;
  connection_ = nullptr;
  handler_ = nullptr;
  reports_.clear();
  writer_.TakeUnwritten();
  CloseSocket();
}

void Stream::SendOnLoop(FrameHeader header, Payload payload, StatusCallback done) {
  KF_DCHECK(loop_->InLoop());
  if (fd_.get() < 0) return ReportSoon(std::move(done), why_);
  if (closing_) return ReportSoon(std::move(done), CancelledError("the connection is being closed by this peer"));
  header.payload_size = TotalSize(payload);
  const bool idle = writer_.empty();
  writer_.Push(EncodeHeader(header), std::move(payload), std::move(done));
  if (idle) Write();
}

void Stream::CloseOnLoop(Deadline deadline) {
  KF_DCHECK(loop_->InLoop());
  if (fd_.get() < 0 || closing_) return;
  closing_ = true;
  FrameHeader bye;
  bye.type = FrameType::kBye;
  const bool idle = writer_.empty();
  writer_.Push(EncodeHeader(bye), {}, nullptr);
  close_timer_ = loop_->RunAtOnLoop(deadline, [this] {
    close_timer_.reset();
    const auto self = shared_from_this();
    Finish(OkStatus());
  });
  if (idle) Write();
}

void Stream::OnEventsOnLoop(uint32_t events) {
  KF_DCHECK(loop_->InLoop());
  const auto self = shared_from_this();
  if ((events & ~EPOLLIN) != 0) Write();
  if (!bye_received_) Read();
  const bool nothing_left = bye_received_ && !writable();
  if (fd_.get() >= 0 && nothing_left) Finish(OkStatus());
}

void Stream::Write() {
  if (!write_error_.ok()) return;
  const Status status = writer_.WriteTo(fd_.get());
  for (StatusCallback& done : writer_.TakeWritten()) ReportSoon(std::move(done), OkStatus());
  if (!status.ok()) return BreakOff(status);
  if (writer_.empty() && closing_) {
    shutdown(fd_.get(), SHUT_WR);
  }
  UpdateEvents();
}

void Stream::BreakOff(const Status& why) {
  write_error_ = why;
  shutdown(fd_.get(), SHUT_RDWR);
  UpdateEvents();
}

void Stream::CheckLiveness() {
  liveness_timer_ = loop_->RunAtOnLoop(After(kLivenessInterval), [this] { CheckLiveness(); });
  const Status status = liveness_(fd_.get());
  if (!status.ok() && write_error_.ok()) BreakOff(status);
}

void Stream::Read() {
  bool ended = false;
  const Status status = reader_.ReadFrom(fd_.get(), &ended);
  if (fd_.get() < 0) return;
  if (bye_received_) {
    if (!closing_) return Finish(CancelledError("connection closed by the other peer"));
    UpdateEvents();
  } else if (!status.ok()) {
    Finish(status);
  } else if (ended) {
    Finish(write_error_.ok() ? UnavailableError("connection closed by peer") : write_error_);
  }
}

void Stream::UpdateEvents() {
  const uint32_t events = (bye_received_ ? 0u : uint32_t{EPOLLIN}) | (writable() ? uint32_t{EPOLLOUT} : 0u);
  if (!watched_events_.has_value() || watched_events_ == events) return;
  watched_events_ = events;
  loop_->ModifyOnLoop(fd_.get(), events);
}

Status Stream::OnFrameOnLoop(const FrameHeader& header, Sink** sink) {
  KF_DCHECK(loop_->InLoop());
  if (header.type != FrameType::kBye) return handler_->OnFrameOnLoop(connection_, header, sink);
  bye_received_ = true;
  reader_.Stop();
  return OkStatus();
}

void Stream::OnFrameEndOnLoop(const FrameHeader& header) {
  KF_DCHECK(loop_->InLoop());
  handler_->OnFrameEndOnLoop(connection_, header);
}

void Stream::ReportSoon(StatusCallback done, const Status& status) {
  if (!done) return;
  reports_.push_back({std::move(done), status});
  if (reports_posted_) return;
  reports_posted_ = true;
  loop_->Post([self = shared_from_this()] {
    self->reports_posted_ = false;
    self->RunReports();
  });
}

void Stream::RunReports() {
  for (Report& report : std::exchange(reports_, {})) {
    report.done(report.status);
    if (abandoned_) return;
  }
}

void Stream::Finish(Status why) {
  if (closing_) why = CancelledError("connection closed by this peer");
  why_ = why;
  CloseSocket();
  for (StatusCallback& done : writer_.TakeUnwritten()) {
    if (done) reports_.push_back({std::move(done), why});
  }
  RunReports();
  if (!abandoned_) handler_->OnClosedOnLoop(connection_, why);
}

void Stream::CloseSocket() {
  reader_.Stop();
  if (fd_.get() < 0) return;
  if (watched_events_.has_value()) loop_->UnwatchOnLoop(fd_.get());
  fd_.Reset();
  for (const auto& timer : {close_timer_, liveness_timer_}) {
    if (timer.has_value()) loop_->CancelTimerOnLoop(*timer);
  }
}

}  // namespace kungfu
