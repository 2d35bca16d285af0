// The frames that wait to go out over one connection, gathered into as few writes as possible, and never copied here.

#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "ops/base/bytes.h"
#include "ops/base/status.h"
#include "ops/transport/wire.h"

namespace kungfu {

// The destination of the bytes of a connection.
class FrameOutput {
 public:
  virtual ~FrameOutput() = default;
  // Takes a first part of the pieces, one after the other, and returns how many bytes: 0 if it takes nothing now.
  virtual StatusOr<size_t> Write(const iovec* pieces, int count) = 0;
};

class SocketOutput : public FrameOutput {
 public:
  explicit SocketOutput(int fd) : fd_(fd) {}
  StatusOr<size_t> Write(const iovec* pieces, int count) override;

 private:
  const int fd_;
};

// Event loop only.
class FrameWriter {
 public:
  // Headers (with their names) and payloads are padded with zeros to a multiple of `alignment`, at most kMaxAlignment.
  static constexpr size_t kMaxAlignment = 64;
  explicit FrameWriter(size_t alignment = 1) : alignment_(alignment) {}

  // The memory of `payload` must stay until the frame is handed over. The callback that is to be taken back then may be
  // put into the returned place, as long as the frame is here.
  StatusCallback* Push(const FrameHeader& header, Payload payload);
  bool empty() const { return frames_.empty(); }

  // Hands over what is taken now, about kBudget bytes at most. OK also if that is nothing.
  Status WriteTo(FrameOutput* output);

  // The callbacks of the frames that have been handed over whole since the last call, in order: of those that have one.
  std::vector<StatusCallback> TakeWritten();
  // The same of all others. Forgets their frames.
  std::vector<StatusCallback> TakeUnwritten();

  uint64_t bytes_written() const { return bytes_written_; }  // without padding

 private:
  // So that one connection does not keep the loop from the others.
  static constexpr size_t kBudget = 1 << 20;
  static constexpr int kMaxPieces = 256;

  // Its pieces in order: header, padding, the payload's pieces, padding.
  struct Frame {
    std::string header;
    Payload payload;
    StatusCallback done;
    size_t header_padding = 0;
    size_t payload_padding = 0;

    size_t pieces() const { return payload.size() + 3; }
    bool IsPadding(size_t i) const { return i == 1 || i == payload.size() + 2; }
    ConstBytes piece(size_t i) const;
  };

  size_t PaddingOf(size_t size) const { return (alignment_ - size % alignment_) % alignment_; }
  // Fills `pieces` with the next pieces, up to `limit` bytes. Returns how many pieces, and in `*size` how many bytes.
  int Gather(size_t limit, iovec (&pieces)[kMaxPieces], size_t* size) const;
  void Advance(size_t written);
  // The first frame is not needed any more.
  void PopFront();

  const size_t alignment_;
  std::list<Frame> frames_;
  std::list<Frame> spare_;  // for the next one: at most one, with the memory of its header
  size_t piece_ = 0;        // of the first frame: the piece that comes next,
  size_t offset_ = 0;       // and what of it is already out
  std::vector<StatusCallback> written_;
  uint64_t bytes_written_ = 0;
};

}  // namespace kungfu
