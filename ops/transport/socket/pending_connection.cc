#include "ops/transport/socket/pending_connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "ops/base/logging.h"

namespace kungfu {

PendingConnection::PendingConnection(EventLoop* loop, UniqueFd fd, std::unique_ptr<Handshake> handshake,
                                     Deadline deadline, Callback done)
    : loop_(loop),
      fd_(std::move(fd)),
      handshake_(std::move(handshake)),
      done_(std::move(done)),
      timer_(loop->RunAtOnLoop(deadline, [this] { Finish(UnavailableError("no answer to the handshake in time")); })),
      to_send_(handshake_->Opening()) {
  loop_->WatchOnLoop(fd_.get(), to_send_.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT, this);
}

PendingConnection::~PendingConnection() {
  loop_->CancelTimerOnLoop(timer_);
  if (fd_.get() >= 0) loop_->UnwatchOnLoop(fd_.get());
}

void PendingConnection::OnEventsOnLoop(uint32_t events) {
  KF_DCHECK(loop_->InLoop());
  Status status = Write();
  if (status.ok()) status = Read();
  // A refusal is sent too, as far as the system takes it at once: it is a few bytes.
  const Status sent = Write();
  if (status.ok()) status = sent;
  const bool over = handshake_->Wants() == 0 && to_send_.empty();
  if (!status.ok() || over) return Finish(status);
  loop_->ModifyOnLoop(fd_.get(), to_send_.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

Status PendingConnection::Write() {
  while (!to_send_.empty()) {
    const ssize_t sent = send(fd_.get(), to_send_.data(), to_send_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      to_send_.erase(0, sent);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return OkStatus();
    } else if (errno != EINTR) {
      return UnavailableError(std::strerror(errno));
    }
  }
  return OkStatus();
}

Status PendingConnection::Read() {
  // Exactly the wanted bytes: later bytes belong to the connection.
  while (handshake_->Wants() > 0) {
    char bytes[128];
    const ssize_t got = recv(fd_.get(), bytes, handshake_->Wants() - received_.size(), MSG_DONTWAIT);
    if (got == 0) return UnavailableError("connection closed during the handshake");
    if (got < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK ? OkStatus() : UnavailableError(std::strerror(errno));
    }
    received_.append(bytes, got);
    if (received_.size() < handshake_->Wants()) continue;
    std::string reply;
    const Status status = handshake_->Advance(std::exchange(received_, {}).data(), &reply);
    to_send_ += reply;
    was_answered_ |= !reply.empty();
    if (!status.ok()) return status;
  }
  return OkStatus();
}

void PendingConnection::Finish(const Status& status) {
  loop_->UnwatchOnLoop(fd_.get());
  UniqueFd fd = std::move(fd_);
  const Callback done = std::move(done_);
  const bool proved = status.ok() || status.code() == Code::kInvalidArgument;
  const PeerId remote = proved ? handshake_->remote() : PeerId();
  done(status, status.ok() ? std::move(fd) : UniqueFd(), remote);
}

}  // namespace kungfu
