// How peers find each other over every transport.

#include "tests/cpp/transport/transport_conformance.h"

#include <utility>

namespace kungfu::testing {
namespace {

void WaitsForAPeerThatDoesNotListenYet(TransportFixture* fixture) {
  Endpoint a(fixture), b(fixture);
  a.StartConnect(b.self());  // it has been refused once when this returns
  EXPECT_OK(b.Listen());
  const StatusOr<Channel*> channel = a.AwaitConnected(0);
  EXPECT_OK(channel.status());
  const Frame frame = NewFrame("hello", "world");
  (*channel)->Send(frame);
  ExpectFrames(b.AwaitAccepted()->AwaitFrames(1), {frame});
  EXPECT_EQ(b.AwaitAccepted()->frames(), 1u);
}

void GivesUpAtTheDeadline(TransportFixture* fixture) {
  Endpoint a(fixture);
  const PeerId nobody = fixture->NewPeer();
  const Status status = a.Connect(nobody, Seconds(0.05)).status();
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
  EXPECT_CONTAINS(status.message(), nobody.ToString());
  a.StartConnect(nobody, Seconds(-1));
  EXPECT_EQ(a.AwaitConnected(1).status().code(), Code::kDeadlineExceeded);
}

void RefusesWhoDoesNotBelong(TransportFixture* fixture) {
  Endpoint b(fixture);
  EXPECT_OK(b.Listen());
  Credentials wrong_secret = CredentialsOf(fixture->NewPeer()), wrong_job = wrong_secret;
  wrong_secret.secret = "guess";
  wrong_job.job_id = "other";
  for (const Credentials& credentials : {wrong_secret, wrong_job}) {
    Endpoint a(fixture, credentials);
    const Status status = a.Connect(b.self()).status();
    EXPECT_EQ(status.code(), Code::kPermissionDenied);
    EXPECT_CONTAINS(status.message(), b.self().ToString());
  }
  EXPECT_EQ(b.accepted(), 0u);
}

void KnowsWhoIsAtTheOtherEnd(TransportFixture* fixture) {
  Pair pair(fixture);
  RunOnLoop(pair.b.loop(), [&] {
    EXPECT_EQ(pair.at_b->connection->remote().ToString(), pair.a.self().ToString());
    EXPECT_EQ(std::string(pair.at_b->connection->transport_name()), pair.b.transport->name());
  });
}

void MayLoseItsTransport(TransportFixture* fixture) {
  Endpoint a(fixture), b(fixture);
  b.prepare = [&](Channel*) {
    const std::unique_ptr<Transport> doomed = std::move(b.transport);
    doomed->CloseOnLoop();
  };
  a.prepare = [&](Channel*) { a.transport.reset(); };
  EXPECT_OK(b.Listen());
  const StatusOr<Channel*> channel = a.Connect(b.self());
  ASSERT_TRUE(channel.ok());
  const Frame frame = NewFrame("still", "there");
  (*channel)->Send(frame);
  ExpectFrames(b.AwaitAccepted()->AwaitFrames(1), {frame});
}

void SaysThatItsAddressIsInUse(TransportFixture* fixture) {
  Endpoint first(fixture);
  EXPECT_OK(first.Listen());
  Endpoint second(fixture, first.self());
  const Status status = second.Listen();
  EXPECT_FALSE(status.ok());
  EXPECT_CONTAINS(status.message(), first.self().ToString());
  EXPECT_CONTAINS(status.message(), "choose other ports");
  // The attempt has not disturbed the first one.
  Endpoint a(fixture);
  EXPECT_OK(a.Connect(first.self()).status());
}

void FreesItsAddressWhenItIsClosed(TransportFixture* fixture) {
  const PeerId self = fixture->NewPeer();
  for (int i = 0; i < 3; ++i) {
    Endpoint b(fixture, self), a(fixture);
    EXPECT_OK(b.Listen());
    EXPECT_OK(a.Connect(self).status());
    EXPECT_FALSE(b.Listen().ok());
    b.CloseTransport();
    Endpoint next(fixture, self);
    EXPECT_OK(next.Listen());
  }
}

void CancelsConnectsWhenItIsClosed(TransportFixture* fixture) {
  Endpoint a(fixture);
  const PeerId nobody = fixture->NewPeer();
  a.StartConnect(nobody);
  a.StartConnect(nobody);
  a.CloseTransport();
  for (const size_t i : {0, 1}) EXPECT_EQ(a.AwaitConnected(i).status().code(), Code::kCancelled);
  a.StartConnect(nobody);
  EXPECT_EQ(a.AwaitConnected(2).status().code(), Code::kCancelled);
}

void LetsManyPeersInAtOnce(TransportFixture* fixture) {
  constexpr size_t kPeers = 100;
  Endpoint b(fixture);
  std::vector<PeerId> peers;
  for (size_t i = 0; i < kPeers; ++i) peers.push_back(fixture->NewPeer());
  std::vector<std::unique_ptr<Transport>> transports;
  const std::unique_ptr<EventLoop> loop = NewLoop();
  Guarded<int> connected(0);
  std::vector<std::unique_ptr<Connection>> connections;
  Channel channel(loop.get());
  RunOnLoop(loop.get(), [&] {
    for (const PeerId& peer : peers) {
      transports.push_back(fixture->NewTransport(loop.get(), CredentialsOf(peer)));
      transports.back()->ConnectOnLoop(b.self(), After(kPatience),
                                       [&](StatusOr<std::unique_ptr<Connection>> result) -> ConnectionHandler* {
                                         EXPECT_OK(result.status());
                                         if (!result.ok()) return nullptr;
                                         connections.push_back(std::move(*result));
                                         connected.Update([](int& count) { ++count; });
                                         return &channel;
                                       });
    }
  });
  EXPECT_OK(b.Listen());
  EXPECT_TRUE(connected.Await([](int count) { return count == kPeers; }));
  b.AwaitAccepted(kPeers - 1);
  RunOnLoop(loop.get(), [&] {
    connections.clear();
    transports.clear();
  });
}

}  // namespace

bool AddConformanceTests(const std::string& suite, const FixtureFactory& factory) {
  AddFrameTests(suite, factory);
  AddEndTests(suite, factory);
  KF_TRANSPORT_CASE(suite, factory, WaitsForAPeerThatDoesNotListenYet);
  KF_TRANSPORT_CASE(suite, factory, GivesUpAtTheDeadline);
  KF_TRANSPORT_CASE(suite, factory, RefusesWhoDoesNotBelong);
  KF_TRANSPORT_CASE(suite, factory, KnowsWhoIsAtTheOtherEnd);
  KF_TRANSPORT_CASE(suite, factory, MayLoseItsTransport);
  KF_TRANSPORT_CASE(suite, factory, SaysThatItsAddressIsInUse);
  KF_TRANSPORT_CASE(suite, factory, FreesItsAddressWhenItIsClosed);
  KF_TRANSPORT_CASE(suite, factory, CancelsConnectsWhenItIsClosed);
  KF_TRANSPORT_CASE(suite, factory, LetsManyPeersInAtOnce);
  return true;
}

}  // namespace kungfu::testing
