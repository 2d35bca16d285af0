// Turns the bytes of one connection into frames, and brings every payload to its sink. The caller decides where the
// bytes come from and where they lie.

#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/base/status.h"
#include "ops/transport/transport.h"
#include "ops/transport/wire.h"

namespace kungfu {

// ConnectionHandler without the connection.
class FrameReceiver {
 public:
  virtual ~FrameReceiver() = default;
  virtual Status OnFrameOnLoop(const FrameHeader& header, Sink** sink) = 0;
  virtual void OnFrameEndOnLoop(const FrameHeader& header) = 0;
};

// Event loop only. Its receiver and its sinks may call Stop inside their calls, and may be gone after that.
class FrameParser {
 public:
  explicit FrameParser(FrameReceiver* receiver) : receiver_(receiver) {}

  // Hands on nothing from now on.
  void Stop() { stopped_ = true; }
  bool stopped() const { return stopped_; }

  // Whether a payload arrives; else a header comes next.
  bool in_payload() const { return sink_ != nullptr; }
  uint64_t remaining() const { return remaining_; }  // of that payload

  // A header with its name, from its beginning. Returns how long it is; 0 if it is not whole, or stopped.
  // REQUIRES: !in_payload().
  StatusOr<size_t> ParseHeader(const char* data, size_t size);

  // Returns a place for the next bytes of the payload, if its sink has one; / tells that it was filled with `size`
  // bytes. REQUIRES: in_payload().
  MutableBytes Reserve() { return sink_->Reserve(remaining_); }
  void Commit(size_t size);

  // The next bytes of the payload, to be copied or lent, as the sink likes. Returns how many were taken; 0 if they are
  // less than a granule, or stopped.
  // REQUIRES: in_payload(); they may be moved to the begin of their granule.
  size_t Deliver(char* data, size_t size);

 private:
  void EndPayload(size_t size);

  FrameReceiver* const receiver_;
  bool stopped_ = false;
  FrameHeader header_;
  Sink* sink_ = nullptr;  // set while a payload arrives
  uint64_t remaining_ = 0;
};

}  // namespace kungfu
