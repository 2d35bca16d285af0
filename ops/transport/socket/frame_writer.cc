#include "ops/transport/socket/frame_writer.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace kungfu {

void FrameWriter::Push(std::string header, Payload payload, StatusCallback done) {
  frames_.push_back({std::move(header), std::move(payload), std::move(done)});
}

Status FrameWriter::WriteTo(int fd) {
  size_t budget = kBudget;
  while (!frames_.empty() && budget > 0) {
    iovec pieces[kMaxPieces];
    size_t size = 0;
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = Gather(budget, pieces, &size);
    const ssize_t written = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return OkStatus();
      return UnavailableError(errno == EPIPE ? "connection closed by peer" : std::strerror(errno));
    }
    Advance(written);
    if (static_cast<size_t>(written) < size) return OkStatus();
    budget -= written;
  }
  return OkStatus();
}

int FrameWriter::Gather(size_t limit, iovec (&pieces)[kMaxPieces], size_t* size) const {
  int count = 0;
  size_t next = piece_, offset = offset_;
  for (const Frame& frame : frames_) {
    for (; next < frame.pieces(); ++next) {
      const ConstBytes piece = frame.piece(next);
      const size_t length = std::min(piece.size - offset, limit - *size);
      if (length > 0) {
        pieces[count++] = {const_cast<char*>(piece.data) + offset, length};
        *size += length;
        if (count == kMaxPieces || *size == limit) return count;
      }
      offset = 0;
    }
    next = 0;
  }
  return count;
}

void FrameWriter::Advance(size_t written) {
  bytes_written_ += written;
  while (!frames_.empty()) {
    Frame& frame = frames_.front();
    for (; piece_ < frame.pieces(); ++piece_, offset_ = 0) {
      const size_t rest = frame.piece(piece_).size - offset_;
      if (rest > written) {
        offset_ += written;
        return;
      }
      written -= rest;
    }
    written_.push_back(std::move(frame.done));
    frames_.pop_front();
    piece_ = 0;
  }
}

std::vector<StatusCallback> FrameWriter::TakeWritten() { return std::exchange(written_, {}); }

std::vector<StatusCallback> FrameWriter::TakeUnwritten() {
  std::vector<StatusCallback> callbacks;
  for (Frame& frame : frames_) callbacks.push_back(std::move(frame.done));
  frames_.clear();
  piece_ = offset_ = 0;
  return callbacks;
}

}  // namespace kungfu
