// The owner's end of a Stream: destroying it abandons the stream.

#pragma once

#include <memory>
#include <utility>

#include "ops/transport/socket/stream.h"
#include "ops/transport/transport.h"

namespace kungfu {

class StreamConnection : public Connection {
 public:
  explicit StreamConnection(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}
  ~StreamConnection() override { stream_->AbandonOnLoop(); }

  StatusCallback* SendOnLoop(const FrameHeader& header, Payload payload) override {
    return stream_->SendOnLoop(header, std::move(payload));
  }
  void CloseOnLoop(Deadline deadline) override { stream_->CloseOnLoop(deadline); }
  void BreakOnLoop(const Status& why) override { stream_->BreakOnLoop(why); }
  const PeerId& remote() const override { return stream_->remote(); }
  const char* transport_name() const override { return stream_->pipe_name(); }
  uint64_t bytes_sent() const override { return stream_->bytes_sent(); }
  uint64_t bytes_received() const override { return stream_->bytes_received(); }

 private:
  const std::shared_ptr<Stream> stream_;
};

}  // namespace kungfu
