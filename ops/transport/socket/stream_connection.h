// The owner's end of a Stream: destroying it abandons the stream.

#pragma once

#include <memory>
#include <utility>

#include "ops/transport/socket/stream.h"
#include "ops/transport/transport.h"

namespace kungfu {

class StreamConnection : public Connection {
 public:
  // `transport_name` is a literal.
  StreamConnection(std::shared_ptr<Stream> stream, const char* transport_name)
      : stream_(std::move(stream)), transport_name_(transport_name) {}
  ~StreamConnection() override { stream_->AbandonOnLoop(); }

  void SendOnLoop(FrameHeader header, Payload payload, StatusCallback done) override {
    stream_->SendOnLoop(std::move(header), std::move(payload), std::move(done));
  }
  void CloseOnLoop(Deadline deadline) override { stream_->CloseOnLoop(deadline); }
  const PeerId& remote() const override { return stream_->remote(); }
  const char* transport_name() const override { return transport_name_; }
  uint64_t bytes_sent() const override { return stream_->bytes_sent(); }
  uint64_t bytes_received() const override { return stream_->bytes_received(); }

 private:
  const std::shared_ptr<Stream> stream_;
  const char* const transport_name_;
};

}  // namespace kungfu
