#include "ops/transport/shm/ring_pipe.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "ops/base/logging.h"
#include "ops/transport/closed_by_peer.h"

namespace kungfu {
namespace {

// Small enough to stay in a core's cache, and large enough that neither side waits for the other at every turn.
constexpr size_t kForward = 512 << 10;
constexpr size_t kBackward = 64 << 10;

RingPlace PlaceOf(const Segment& segment, bool forward) {
  return forward ? RingPlace(segment.data(), kForward)
                 : RingPlace(segment.data() + RingPlace::SizeOf(kForward), kBackward);
}

}  // namespace

size_t RingPipe::SegmentSize() { return RingPlace::SizeOf(kForward) + RingPlace::SizeOf(kBackward); }

RingPipe::RingPipe(EventLoop* loop, UniqueFd socket, Segment segment, bool opened_here)
    : loop_(loop),
      socket_(std::move(socket)),
      segment_(std::move(segment)),
      bell_(&socket_),
      writer_(PlaceOf(segment_, opened_here), &bell_),
      reader_(PlaceOf(segment_, !opened_here), &bell_) {}

void RingPipe::WatchOnLoop(PipeListener* listener, bool read, bool write) {
  KF_DCHECK(loop_->InLoop());
  if (listener_ == nullptr) {
    listener_ = listener;
    loop_->WatchOnLoop(socket_.get(), EPOLLIN, this);
    loop_->AddPollableOnLoop(this);
  }
  reads_ = read;
  writes_ = write;
}

Status RingPipe::WriteOnLoop(FrameWriter* frames) {
  KF_DCHECK(loop_->InLoop());
  if (ended_) return ClosedByPeer();
  KF_RETURN_IF_ERROR(frames->WriteTo(&writer_));
  if (!call_at_.has_value() && writer_.owes_call()) call_at_ = After(kPatience);
  return OkStatus();
}

// Bytes that were written before the socket was closed are there when the end is seen.
Status RingPipe::ReadOnLoop(FrameParser* frames, bool* ended) {
  KF_DCHECK(loop_->InLoop());
  const bool last = ended_;
  bool drained = false;
  KF_RETURN_IF_ERROR(reader_.Read(frames, &drained));
  *ended = last && drained;
  return OkStatus();
}

void RingPipe::OnEventsOnLoop(uint32_t events) {
  KF_DCHECK(loop_->InLoop());
  char bytes[64];
  const ssize_t got = recv(socket_.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
  ended_ |= got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  if (ended_) {
    listener_->OnReadyOnLoop(reads_, writes_);
  } else {
    PollOnLoop();
  }
}

bool RingPipe::PollOnLoop() {
  KF_DCHECK(loop_->InLoop());
  if (call_at_.has_value() && (!writer_.owes_call() || Clock::now() >= *call_at_)) Call();
  const bool readable = reads_ && reader_.IsReady();
  const bool writable = writes_ && writer_.IsReady();
  if (!readable && !writable) return false;
  listener_->OnReadyOnLoop(readable, writable);
  return true;
}

void RingPipe::Call() {
  call_at_.reset();
  writer_.Call();
}

bool RingPipe::SleepOnLoop() {
  KF_DCHECK(loop_->InLoop());
  Call();
  const bool nothing_to_read = !reads_ || reader_.Sleep();
  const bool nothing_to_write = !writes_ || writer_.Sleep();
  return nothing_to_read && nothing_to_write;
}

void RingPipe::WakeOnLoop() {
  KF_DCHECK(loop_->InLoop());
  reader_.Wake();
  writer_.Wake();
}

void RingPipe::BreakOnLoop() {
  KF_DCHECK(loop_->InLoop());
  shutdown(socket_.get(), SHUT_RDWR);
}

void RingPipe::CloseOnLoop() {
  if (socket_.get() < 0) return;
  if (listener_ != nullptr) {
    loop_->RemovePollableOnLoop(this);
    loop_->UnwatchOnLoop(socket_.get());
  }
  socket_.Reset();
}

}  // namespace kungfu
