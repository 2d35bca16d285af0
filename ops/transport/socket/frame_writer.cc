#include "ops/transport/socket/frame_writer.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "ops/transport/closed_by_peer.h"

namespace kungfu {

StatusOr<size_t> SocketOutput::Write(const iovec* pieces, int count) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces);
  message.msg_iovlen = count;
  for (;;) {
    const ssize_t written = sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written >= 0) return static_cast<size_t>(written);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return size_t{0};
    if (errno != EINTR) return errno == EPIPE ? ClosedByPeer() : UnavailableError(std::strerror(errno));
  }
}

ConstBytes FrameWriter::Frame::piece(size_t i) const {
  static constexpr char kZeros[kMaxAlignment] = {};
  if (i == 0) return {header.data(), header.size()};
  if (i == 1) return {kZeros, header_padding};
  return i == payload.size() + 2 ? ConstBytes{kZeros, payload_padding} : payload[i - 2];
}

StatusCallback* FrameWriter::Push(const FrameHeader& header, Payload payload) {
  if (spare_.empty()) spare_.emplace_back();
  frames_.splice(frames_.end(), spare_, spare_.begin());
  Frame& frame = frames_.back();
  EncodeHeader(header, &frame.header);
  frame.payload = std::move(payload);
  frame.header_padding = PaddingOf(frame.header.size());
  frame.payload_padding = PaddingOf(TotalSize(frame.payload));
  return &frame.done;
}

Status FrameWriter::WriteTo(FrameOutput* output) {
  size_t budget = kBudget;
  while (!frames_.empty() && budget > 0) {
    iovec pieces[kMaxPieces];
    size_t size = 0;
    const int count = Gather(budget, pieces, &size);
    const StatusOr<size_t> written = output->Write(pieces, count);
    KF_RETURN_IF_ERROR(written.status());
    Advance(*written);
    if (*written < size) return OkStatus();
    budget -= *written;
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
  while (!frames_.empty()) {
    Frame& frame = frames_.front();
    for (; piece_ < frame.pieces(); ++piece_, offset_ = 0) {
      const size_t step = std::min(frame.piece(piece_).size - offset_, written);
      if (!frame.IsPadding(piece_)) bytes_written_ += step;
      offset_ += step;
      written -= step;
      if (offset_ < frame.piece(piece_).size) return;
    }
    if (frame.done) written_.push_back(std::exchange(frame.done, nullptr));
    PopFront();
    piece_ = 0;
  }
}

void FrameWriter::PopFront() {
  if (spare_.empty()) {
    spare_.splice(spare_.begin(), frames_, frames_.begin());
  } else {
    frames_.pop_front();
  }
}

std::vector<StatusCallback> FrameWriter::TakeWritten() { return std::exchange(written_, {}); }

std::vector<StatusCallback> FrameWriter::TakeUnwritten() {
  std::vector<StatusCallback> callbacks;
  for (Frame& frame : frames_) {
    if (frame.done) callbacks.push_back(std::move(frame.done));
  }
  frames_.clear();
  piece_ = offset_ = 0;
  return callbacks;
}

}  // namespace kungfu
