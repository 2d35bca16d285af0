#include "ops/transport/transport_set.h"

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
    RunOnLoop(loop_.get(),
              [&] { status = set_->ListenOnLoop(peers, [](std::unique_ptr<Connection>) { return nullptr; }); });
    return status;
  }

  // The name of the transport, or the error.
  StatusOr<std::string> Connect(const PeerId& remote, Seconds timeout) {
    Guarded<StatusOr<std::string>> result(std::string(""));
    RunOnLoop(loop_.get(), [&] {
      set_->ConnectOnLoop(remote, After(timeout),
                          [&](StatusOr<std::unique_ptr<Connection>> connection) -> ConnectionHandler* {
                            if (connection.ok()) {
                              result.Set(std::string((*connection)->transport_name()));
                            } else {
                              result.Set(connection.status());
                            }
                            return nullptr;
                          });
    });
    EXPECT_TRUE(result.Await([](const StatusOr<std::string>& value) { return !value.ok() || !value->empty(); }));
    return result.Get();
  }

 private:
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
  SetPeer b(hosts.b, "auto", hosts.sockets.directory()), by_tcp(hosts.a, "tcp", "");
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
