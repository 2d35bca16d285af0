// A peer for tests: an event loop, a transport, and connections that remember what happens to them.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/transport/event_loop.h"
#include "ops/transport/handshake.h"
#include "ops/transport/transport.h"
#include "tests/cpp/transport/harness.h"
#include "tests/cpp/transport/recording_sink.h"

namespace kungfu::testing {

struct Frame {
  FrameHeader header;
  std::string payload;
};

// kData or kBulk, as the size of the payload asks.
Frame NewFrame(const std::string& name, std::string payload);

void ExpectFrames(const std::vector<Frame>& received, const std::vector<Frame>& sent);
void ExpectAllOk(const std::vector<Status>& statuses);

// More bytes than the system keeps for a connection whose other side does not read.
inline constexpr size_t kTooMuch = 24 << 20;

// One connection and its handler. Methods without OnLoop are the test's thread's.
class Channel : public ConnectionHandler {
 public:
  explicit Channel(EventLoop* loop) : loop_(loop) {}

  void Send(const Frame& frame);
  void Close(Seconds timeout = kPatience);
  // Destroys the connection. From then on it is an error if the handler, or a send's callback, is called.
  void Destroy();
  void DestroyOnLoop();

  // What came, when there are `count` frames of it.
  std::vector<Frame> AwaitFrames(size_t count) const;
  // Why the connection is over, when it is.
  Status AwaitClosed() const;
  // How the first `count` sends ended, when they have.
  std::vector<Status> AwaitSent(size_t count) const;
  size_t frames() const { return state_.Get().frames.size(); }

  // `done` is called later, also if the system has taken all at once.
  void SendOnLoop(const Frame& frame, std::function<void(const Status&)> done = nullptr);

  Status OnFrameOnLoop(Connection* connection, const FrameHeader& header, Sink** sink) override;
  void OnFrameEndOnLoop(Connection* connection, const FrameHeader& header) override;
  void OnClosedOnLoop(Connection* connection, const Status& why) override;

  // Set before anything can call them; loop only from then on.
  std::unique_ptr<Connection> connection;
  SinkKind sink_kind = SinkKind::kWhole;
  Sink* other_sink = nullptr;  // takes all payloads instead
  std::function<Status()> on_frame;
  std::function<void()> on_frame_end, on_closed;

 private:
  struct State {
    std::vector<Frame> frames;
    std::vector<Status> sent;
    std::vector<Status> closed;
  };

  void ExpectAliveOnLoop(const char* call) const;

  EventLoop* const loop_;
  Guarded<State> state_{State()};
  RecordingSink sink_;
  bool destroyed_ = false;
  bool sending_ = false;  // inside SendOnLoop
};

// Makes transports for tests, and knows where they may listen.
class TransportFixture {
 public:
  virtual ~TransportFixture() = default;
  // An address where nobody listens, and nobody else can.
  virtual PeerId NewPeer() = 0;
  virtual std::unique_ptr<Transport> NewTransport(EventLoop* loop, const Credentials& credentials) = 0;
};
using FixtureFactory = std::function<std::unique_ptr<TransportFixture>()>;

Credentials CredentialsOf(const PeerId& self);

class Endpoint {
 public:
  Endpoint(TransportFixture* fixture, const Credentials& credentials);
  Endpoint(TransportFixture* fixture, const PeerId& self) : Endpoint(fixture, CredentialsOf(self)) {}
  explicit Endpoint(TransportFixture* fixture) : Endpoint(fixture, fixture->NewPeer()) {}
  ~Endpoint();

  const PeerId& self() const { return credentials_.self; }
  EventLoop* loop() { return loop_.get(); }

  Status Listen();
  void StartConnect(const PeerId& remote, Seconds timeout = kPatience);
  // Waits for the connection that was asked for as number `index`.
  StatusOr<Channel*> AwaitConnected(size_t index) const;
  // Both, for the first connection.
  StatusOr<Channel*> Connect(const PeerId& remote, Seconds timeout = kPatience);
  // The connection that was let in as number `index`; null if it does not come.
  Channel* AwaitAccepted(size_t index = 0) const;
  size_t accepted() const { return state_.Get().accepted.size(); }
  void CloseTransport();

  // Called on the loop with every new channel, before its transport gets it back. If it destroys the connection, no
  // handler is returned.
  std::function<void(Channel*)> prepare;

  std::unique_ptr<Transport> transport;  // loop only

 private:
  struct State {
    std::vector<Channel*> accepted;
    std::vector<StatusOr<Channel*>> connected;
  };

  Channel* NewChannelOnLoop(std::unique_ptr<Connection> connection);

  const Credentials credentials_;
  std::vector<std::unique_ptr<Channel>> channels_;  // loop only
  Guarded<State> state_{State()};
  const std::unique_ptr<EventLoop> loop_ = NewLoop();
};

// Two connected endpoints.
struct Pair {
  explicit Pair(TransportFixture* fixture);
  Pair(TransportFixture* fixture, const std::function<void(Channel*)>& prepare_a,
       const std::function<void(Channel*)>& prepare_b);

  Endpoint a, b;
  Channel* at_a = nullptr;  // has connected
  Channel* at_b = nullptr;  // was accepted
};

}  // namespace kungfu::testing
