#include "ops/transport/socket/socket_pipe.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include "ops/base/logging.h"

namespace kungfu {

void SocketPipe::WatchOnLoop(PipeListener* listener, bool read, bool write) {
  KF_DCHECK(loop_->InLoop());
  const uint32_t events = (read ? uint32_t{EPOLLIN} : 0u) | (write ? uint32_t{EPOLLOUT} : 0u);
  if (!watched_.has_value()) {
    listener_ = listener;
    loop_->WatchOnLoop(socket_.get(), events, this);
  } else if (*watched_ != events) {
    loop_->ModifyOnLoop(socket_.get(), events);
  }
  watched_ = events;
}

void SocketPipe::OnEventsOnLoop(uint32_t events) {
  KF_DCHECK(loop_->InLoop());
  listener_->OnReadyOnLoop(/*readable=*/true, /*writable=*/(events & ~EPOLLIN) != 0);
}

Status SocketPipe::WriteOnLoop(FrameWriter* frames) {
  KF_DCHECK(loop_->InLoop());
  SocketOutput output(socket_.get());
  return frames->WriteTo(&output);
}

Status SocketPipe::ReadOnLoop(FrameParser* frames, bool* ended) {
  KF_DCHECK(loop_->InLoop());
  return reader_.ReadFrom(socket_.get(), frames, ended);
}

void SocketPipe::EndWritingOnLoop() {
  KF_DCHECK(loop_->InLoop());
  shutdown(socket_.get(), SHUT_WR);
}

void SocketPipe::BreakOnLoop() {
  KF_DCHECK(loop_->InLoop());
  shutdown(socket_.get(), SHUT_RDWR);
}

void SocketPipe::CloseOnLoop() {
  if (socket_.get() < 0) return;
  if (watched_.has_value()) loop_->UnwatchOnLoop(socket_.get());
  socket_.Reset();
}

}  // namespace kungfu
