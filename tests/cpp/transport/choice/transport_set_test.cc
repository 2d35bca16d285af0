#include "ops/transport/choice/transport_set.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "ops/transport/socket/tcp_family.h"
#include "tests/cpp/testing.h"
#include "tests/cpp/transport/socket_fixture.h"

namespace kungfu {
namespace {

using testing::Channel;
using testing::CredentialsOf;
using testing::Guarded;
using testing::NewLoop;
using testing::RunOnLoop;
using testing::TcpFixture;
using testing::UnixFixture;

// One peer with a transport set. Every connection is closed when it is made: here counts how it was made.
class SetPeer {
 public:
  SetPeer(const PeerId& self, const std::string& choice, const std::string& directory) : handler_(loop_.get()) {
    StatusOr<std::unique_ptr<TransportSet>> set =
        TransportSet::Make(loop_.get(), CredentialsOf(self), choice, directory);
    EXPECT_OK(set.status());
    set_ = std::move(*set);
  }
  ~SetPeer() {
    RunOnLoop(loop_.get(), [this] { set_.reset(); });
  }

  Status Listen(const std::vector<PeerId>& peers) {
    Status status;
    RunOnLoop(loop_.get(), [&] {
      status = set_->ListenOnLoop(peers, [this](StatusOr<std::unique_ptr<Connection>> connection, const PeerId& peer) {
        if (!connection.ok()) refused_.Set(connection.status().WithContext(peer.ToString()));
        return nullptr;
      });
    });
    return status;
  }

  // The name of the transport, or the error.
  StatusOr<std::string> Connect(const PeerId& remote, Seconds timeout) {
    StartConnect(remote, timeout);
    return AwaitConnected();
  }
  void StartConnect(const PeerId& remote, Seconds timeout) {
    connected_.Set(std::string(""));
    RunOnLoop(loop_.get(), [&] {
      set_->ConnectOnLoop(remote, After(timeout),
                          [this](StatusOr<std::unique_ptr<Connection>> connection) -> ConnectionHandler* {
                            if (connection.ok()) {
                              connected_.Set(std::string((*connection)->transport_name()));
                            } else {
                              connected_.Set(connection.status());
                            }
                            return nullptr;
                          });
    });
  }
  StatusOr<std::string> AwaitConnected() const {
    EXPECT_TRUE(connected_.Await([](const StatusOr<std::string>& value) { return !value.ok() || !value->empty(); }));
    return connected_.Get();
  }
  // With whom there can be no connection, and why.
  Status AwaitRefused() const {
    EXPECT_TRUE(refused_.Await([](const Status& status) { return !status.ok(); }));
    return refused_.Get();
  }

 private:
  Guarded<StatusOr<std::string>> connected_{std::string("")};
  Guarded<Status> refused_{Status()};
  const std::unique_ptr<EventLoop> loop_ = NewLoop();
  Channel handler_;
  std::unique_ptr<TransportSet> set_;
};

constexpr Seconds kBriefly{0.05};

struct Hosts {
  UnixFixture sockets;
  TcpFixture host{"127.0.0.1"}, other_host{"127.0.0.2"};
  const PeerId a = host.NewPeer(), b = host.NewPeer(), far = other_host.NewPeer();
};

std::string Via(const StatusOr<std::string>& transport) {
  EXPECT_OK(transport.status());
  return transport.ok() ? *transport : "";
}

KF_TEST(TransportSet, TakesSharedMemoryToOurHostAndTcpToOthers) {
  Hosts hosts;
  SetPeer a(hosts.a, "auto", hosts.sockets.directory()), b(hosts.b, "auto", hosts.sockets.directory()),
      far(hosts.far, "auto", "");
  const std::vector<PeerId> peers = {hosts.a, hosts.b, hosts.far};
  EXPECT_OK(b.Listen(peers));
  EXPECT_OK(far.Listen(peers));
  EXPECT_EQ(Via(a.Connect(hosts.b, testing::kPatience)), "shm");
  EXPECT_EQ(Via(a.Connect(hosts.far, testing::kPatience)), "tcp");
  EXPECT_EQ(Via(far.Connect(hosts.b, testing::kPatience)), "tcp");
}

KF_TEST(TransportSet, OpensNoPortWithoutAPeerOnAnotherHost) {
  Hosts hosts;
  SetPeer b(hosts.b, "auto", hosts.sockets.directory()), by_tcp(hosts.far, "tcp", "");
  EXPECT_OK(b.Listen({hosts.a, hosts.b}));
  EXPECT_EQ(by_tcp.Connect(hosts.b, kBriefly).status().code(), Code::kDeadlineExceeded);
  // A peer on another host joins later.
  EXPECT_OK(b.Listen({hosts.a, hosts.b, hosts.far}));
  EXPECT_EQ(Via(by_tcp.Connect(hosts.b, testing::kPatience)), "tcp");
}

KF_TEST(TransportSet, MayBeForced) {
  Hosts hosts;
  for (const char* choice : {"shm", "unix", "tcp"}) {
    SetPeer b(hosts.b, choice, hosts.sockets.directory()), a(hosts.a, choice, hosts.sockets.directory());
    EXPECT_OK(b.Listen({hosts.a}));
    EXPECT_EQ(Via(a.Connect(hosts.b, testing::kPatience)), choice);
  }
}

KF_TEST(TransportSet, TakesTcpWithoutADirectoryForSockets) {
  Hosts hosts;
  SetPeer b(hosts.b, "auto", ""), a(hosts.a, "auto", "");
  EXPECT_OK(b.Listen({hosts.a}));
  EXPECT_EQ(Via(a.Connect(hosts.b, testing::kPatience)), "tcp");
}

KF_TEST(TransportSet, TellsPeersOfOneHostThatTheyWereToldDifferently) {
  struct Told {
    std::string choice;
    bool directory = true;
  };
  const std::pair<Told, Told> cases[] = {
      {{"shm"}, {"tcp"}}, {{"shm"}, {"tcp", false}}, {{"auto"}, {"auto", false}}, {{"auto"}, {"unix"}},
      {{"tcp"}, {"shm"}}, {{"unix"}, {"shm"}},       {{"unix"}, {"tcp", false}},  {{"tcp"}, {"unix"}},
  };
  for (const auto& [ours, theirs] : cases) {
    Hosts hosts;
    const auto directory = [&](const Told& told) { return told.directory ? hosts.sockets.directory() : ""; };
    SetPeer a(hosts.a, ours.choice, directory(ours)), b(hosts.b, theirs.choice, directory(theirs));
    EXPECT_OK(b.Listen({hosts.a}));
    const Status at_a = a.Connect(hosts.b, testing::kPatience).status(), at_b = b.AwaitRefused();
    EXPECT_CONTAINS(at_b.message(), hosts.a.ToString() + ": ");
    for (const Status& status : {at_a, at_b}) {
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_CONTAINS(status.message(), "KUNGFU_TRANSPORT is ");
      EXPECT_CONTAINS(status.message(), ours.choice);
      EXPECT_CONTAINS(status.message(), " at " + hosts.a.ToString());
      EXPECT_CONTAINS(status.message(), theirs.choice);
      EXPECT_CONTAINS(status.message(), " at " + hosts.b.ToString());
    }
  }
}

// Waits for a client at `peer`'s port, and answers it as `credentials` say until it goes.
void MeetAtPort(const PeerId& peer, const Credentials& credentials) {
  TcpFamily tcp;
  const StatusOr<UniqueFd> listening = tcp.Listen(peer);
  ASSERT_TRUE(listening.ok());
  pollfd came{listening->get(), POLLIN, 0};
  ASSERT_EQ(poll(&came, 1, static_cast<int>(1000 * testing::kPatience.count())), 1);
  const UniqueFd fd(accept(listening->get(), nullptr, nullptr));
  const timeval patience{static_cast<time_t>(testing::kPatience.count()), 0};
  EXPECT_EQ(setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
  const std::unique_ptr<Handshake> handshake = Handshake::Server(credentials);
  std::string message(handshake->Wants(), '\0');
  while (recv(fd.get(), &message[0], message.size(), MSG_WAITALL) > 0) {
    std::string reply;
    (void)handshake->Advance(message.data(), &reply);
    testing::WriteAll(fd.get(), reply);
    message.resize(std::max<size_t>(handshake->Wants(), 1));
  }
}

// It listens for other hosts, and not yet for us; or a peer of another job has its port.
KF_TEST(TransportSet, WaitsForAPeerOfWhichItsPortSaysNothing) {
  Hosts hosts;
  Credentials later = CredentialsOf(hosts.b), other = later;
  later.place = MeetingPlace::kAutoShm;
  other.job_id = "another job";
  for (const Credentials& there : {later, other}) {
    SetPeer a(hosts.a, "shm", hosts.sockets.directory()), b(hosts.b, "auto", hosts.sockets.directory());
    a.StartConnect(hosts.b, testing::kPatience);
    MeetAtPort(hosts.b, there);
    EXPECT_OK(b.Listen({hosts.a}));
    EXPECT_EQ(Via(a.AwaitConnected()), "shm");
  }
}

KF_TEST(TransportSet, SaysWhatCannotReachAnotherHost) {
  Hosts hosts;
  for (const std::string choice : {"shm", "unix"}) {
    SetPeer a(hosts.a, choice, hosts.sockets.directory());
    for (const Status& status : {a.Listen({hosts.far}), a.Connect(hosts.far, testing::kPatience).status()}) {
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_CONTAINS(status.message(), "KUNGFU_TRANSPORT is " + choice);
      EXPECT_CONTAINS(status.message(), hosts.far.ToString());
      EXPECT_CONTAINS(status.message(), "another host");
    }
  }
}

KF_TEST(TransportSet, RefusesWhatItDoesNotKnow) {
  const std::unique_ptr<EventLoop> loop = NewLoop();
  Hosts hosts;
  const Status unknown = TransportSet::Make(loop.get(), CredentialsOf(hosts.a), "rdma", "").status();
  EXPECT_EQ(unknown.code(), Code::kInvalidArgument);
  EXPECT_CONTAINS(unknown.message(), "'rdma'");
  EXPECT_CONTAINS(TransportSet::Make(loop.get(), CredentialsOf(hosts.a), "unix", "").status().message(),
                  "KUNGFU_SOCKET_DIR");
}

}  // namespace
}  // namespace kungfu
