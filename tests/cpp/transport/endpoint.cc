#include "tests/cpp/transport/endpoint.h"

#include <utility>

namespace kungfu::testing {

Frame NewFrame(const std::string& name, std::string payload) {
  Frame frame;
  frame.header.type = payload.size() > kMaxEagerSize ? FrameType::kBulk : FrameType::kData;
  frame.header.tag.name = name;
  frame.payload = std::move(payload);
  return frame;
}

void ExpectFrames(const std::vector<Frame>& received, const std::vector<Frame>& sent) {
  ASSERT_EQ(received.size(), sent.size());
  for (size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(received[i].header.type, sent[i].header.type);
    EXPECT_EQ(received[i].header.tag.name, sent[i].header.tag.name);
    EXPECT_EQ(received[i].header.payload_size, sent[i].payload.size());
    EXPECT_TRUE(received[i].payload == sent[i].payload);
  }
}

void ExpectAllOk(const std::vector<Status>& statuses) {
  for (const Status& status : statuses) EXPECT_OK(status);
}

void Channel::Send(const Frame& frame) {
  loop_->Post([this, frame] { SendOnLoop(frame); });
}

void Channel::SendOnLoop(const Frame& frame, std::function<void(const Status&)> done) {
  const auto payload = std::make_shared<const std::string>(frame.payload);
  const auto calls = std::make_shared<int>(0);
  // In two pieces, as tensors come in pieces.
  const size_t half = payload->size() / 2;
  const Payload pieces = {{payload->data(), half}, {payload->data() + half, payload->size() - half}};
  FrameHeader header = frame.header;
  header.payload_size = payload->size();
  const auto ended = [this, payload, calls, done = std::move(done)](const Status& status) {
    EXPECT_TRUE(loop_->InLoop());
    EXPECT_FALSE(sending_);
    EXPECT_EQ(++*calls, 1);
    ExpectAliveOnLoop("the callback of a send");
    state_.Update([&](State& state) { state.sent.push_back(status); });
    if (done) done(status);
  };
  // A send from within the callback of another one is inside both.
  const bool outer = std::exchange(sending_, true);
  StatusCallback* const place = connection->SendOnLoop(header, pieces);
  sending_ = outer;
  if (place != nullptr) {
    *place = ended;
  } else {
    loop_->Post([this, ended] {
      if (!destroyed_) ended(OkStatus());
    });
  }
}

void Channel::Close(Seconds timeout) {
  RunOnLoop(loop_, [&] {
    const size_t closed_before = state_.Get().closed.size();
    connection->CloseOnLoop(After(timeout));
    EXPECT_EQ(state_.Get().closed.size(), closed_before);
  });
}

void Channel::Destroy() {
  RunOnLoop(loop_, [this] { DestroyOnLoop(); });
}

void Channel::DestroyOnLoop() {
  destroyed_ = true;
  connection.reset();
}

std::vector<Frame> Channel::AwaitFrames(size_t count) const {
  EXPECT_TRUE(state_.Await([&](const State& state) { return state.frames.size() >= count; }));
  return state_.Get().frames;
}

Status Channel::AwaitClosed() const {
  EXPECT_TRUE(state_.Await([](const State& state) { return !state.closed.empty(); }));
  const std::vector<Status> closed = state_.Get().closed;
  return closed.size() == 1 ? closed[0]
                            : InternalError("OnClosed was called " + std::to_string(closed.size()) + " times");
}

std::vector<Status> Channel::AwaitSent(size_t count) const {
  EXPECT_TRUE(state_.Await([&](const State& state) { return state.sent.size() >= count; }));
  return state_.Get().sent;
}

void Channel::ExpectAliveOnLoop(const char* call) const {
  if (destroyed_) Fail(__FILE__, __LINE__, std::string(call) + " was called after the connection was destroyed");
}

Status Channel::OnFrameOnLoop(Connection* connection, const FrameHeader& header, Sink** sink) {
  EXPECT_TRUE(loop_->InLoop());
  ExpectAliveOnLoop("OnFrame");
  EXPECT_TRUE(connection == this->connection.get());
  sink_.Begin(sink_kind, other_sink == nullptr ? header.payload_size : 0);
  if (header.payload_size > 0) *sink = other_sink == nullptr ? &sink_ : other_sink;
  return on_frame ? on_frame() : OkStatus();
}

void Channel::OnFrameEndOnLoop(Connection* connection, const FrameHeader& header) {
  ExpectAliveOnLoop("OnFrameEnd");
  EXPECT_TRUE(sink_.full());
  state_.Update([&](State& state) { state.frames.push_back({header, sink_.Take()}); });
  if (on_frame_end) on_frame_end();
}

void Channel::OnClosedOnLoop(Connection* connection, const Status& why) {
  EXPECT_TRUE(loop_->InLoop());
  ExpectAliveOnLoop("OnClosed");
  if (on_closed) on_closed();
  state_.Update([&](State& state) { state.closed.push_back(why); });
}

Credentials CredentialsOf(const PeerId& self) { return {self, "job", "secret"}; }

Endpoint::Endpoint(TransportFixture* fixture, const Credentials& credentials) : credentials_(credentials) {
  RunOnLoop(loop_.get(), [&] { transport = fixture->NewTransport(loop_.get(), credentials); });
}

Endpoint::~Endpoint() {
  RunOnLoop(loop_.get(), [this] {
    transport.reset();
    for (const auto& channel : channels_) channel->DestroyOnLoop();
  });
  loop_->Close();
  loop_->Join();
}

Channel* Endpoint::NewChannelOnLoop(std::unique_ptr<Connection> connection) {
  channels_.push_back(std::make_unique<Channel>(loop_.get()));
  Channel* const channel = channels_.back().get();
  channel->connection = std::move(connection);
  if (prepare) prepare(channel);
  return channel;
}

Status Endpoint::Listen() {
  Status status;
  RunOnLoop(loop_.get(), [&] {
    status = transport->ListenOnLoop([this](StatusOr<std::unique_ptr<Connection>> connection, const PeerId&) {
      EXPECT_OK(connection.status());
      Channel* const channel = NewChannelOnLoop(std::move(*connection));
      state_.Update([&](State& state) { state.accepted.push_back(channel); });
      return channel->connection ? channel : nullptr;
    });
  });
  return status;
}

void Endpoint::StartConnect(const PeerId& remote, Seconds timeout) {
  RunOnLoop(loop_.get(), [&] {
    const auto inside = std::make_shared<bool>(true);
    transport->ConnectOnLoop(
        remote, After(timeout),
        [this, remote, inside](StatusOr<std::unique_ptr<Connection>> result) -> ConnectionHandler* {
          EXPECT_TRUE(loop_->InLoop());
          EXPECT_FALSE(*inside);
          if (!result.ok()) {
            state_.Update([&](State& state) { state.connected.push_back(result.status()); });
            return nullptr;
          }
          EXPECT_EQ((*result)->remote().ToString(), remote.ToString());
          Channel* const channel = NewChannelOnLoop(std::move(*result));
          state_.Update([&](State& state) { state.connected.push_back(channel); });
          return channel->connection ? channel : nullptr;
        });
    *inside = false;
  });
}

StatusOr<Channel*> Endpoint::AwaitConnected(size_t index) const {
  if (!state_.Await([&](const State& state) { return state.connected.size() > index; })) {
    return DeadlineExceededError("nothing came of the connection");
  }
  return state_.Get().connected[index];
}

StatusOr<Channel*> Endpoint::Connect(const PeerId& remote, Seconds timeout) {
  StartConnect(remote, timeout);
  return AwaitConnected(0);
}

Channel* Endpoint::AwaitAccepted(size_t index) const {
  EXPECT_TRUE(state_.Await([&](const State& state) { return state.accepted.size() > index; }));
  const State state = state_.Get();
  return state.accepted.size() > index ? state.accepted[index] : nullptr;
}

void Endpoint::CloseTransport() {
  RunOnLoop(loop_.get(), [this] {
    const size_t before = state_.Get().connected.size();
    transport->CloseOnLoop();
    EXPECT_EQ(state_.Get().connected.size(), before);
  });
}

Pair::Pair(TransportFixture* fixture) : Pair(fixture, nullptr, nullptr) {}

Pair::Pair(TransportFixture* fixture, const std::function<void(Channel*)>& prepare_a,
           const std::function<void(Channel*)>& prepare_b)
    : a(fixture), b(fixture) {
  a.prepare = prepare_a;
  b.prepare = prepare_b;
  EXPECT_OK(b.Listen());
  const StatusOr<Channel*> connected = a.Connect(b.self());
  EXPECT_OK(connected.status());
  if (!connected.ok()) std::abort();  // no test can do without
  at_a = *connected;
  at_b = b.AwaitAccepted();
}

}  // namespace kungfu::testing
