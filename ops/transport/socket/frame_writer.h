// The frames that wait to go out over one socket, gathered into as few system calls as possible, and never copied.

#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "ops/base/bytes.h"
#include "ops/base/status.h"

namespace kungfu {

// Event loop only.
class FrameWriter {
 public:
  // `header` is what EncodeHeader returned. What `payload` points to must stay until `done` is taken back.
  void Push(std::string header, Payload payload, StatusCallback done);
  bool empty() const { return frames_.empty(); }

  // Hands the system what it takes now, about kBudget bytes at most. OK also if it takes nothing.
  Status WriteTo(int fd);

  // The callbacks of the frames that have been handed over whole since the last call, in order.
  std::vector<StatusCallback> TakeWritten();
  // The callbacks of all others. Forgets their frames.
  std::vector<StatusCallback> TakeUnwritten();

  uint64_t bytes_written() const { return bytes_written_; }

 private:
  // So that one connection does not keep the loop from the others.
  static constexpr size_t kBudget = 1 << 20;
  static constexpr int kMaxPieces = 256;

  struct Frame {
    std::string header;
    Payload payload;
    StatusCallback done;

    // The header is piece 0.
    size_t pieces() const { return payload.size() + 1; }
    ConstBytes piece(size_t i) const { return i == 0 ? ConstBytes{header.data(), header.size()} : payload[i - 1]; }
  };

  // Fills `pieces` with what comes next, up to `limit` bytes. Returns how many pieces, and in `*size` how many bytes.
  int Gather(size_t limit, iovec (&pieces)[kMaxPieces], size_t* size) const;
  void Advance(size_t written);

  std::deque<Frame> frames_;
  size_t piece_ = 0;   // of the first frame: the piece that comes next,
  size_t offset_ = 0;  // and what of it is already out
  std::vector<StatusCallback> written_;
  uint64_t bytes_written_ = 0;
};

}  // namespace kungfu
