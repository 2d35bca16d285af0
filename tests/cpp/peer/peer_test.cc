#include "ops/peer/peer.h"

#include <sys/resource.h>
#include <unistd.h>

#include <future>
#include <string>
#include <thread>

#include "ops/base/instructions.h"
#include "ops/base/unique_fd.h"
#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

Status StartError(const Config& config) {
  StatusOr<std::unique_ptr<Peer>> peer = Peer::Start(config);
  return peer.ok() ? OkStatus() : peer.status();
}

Config Two() {
  Config config;
  config.self = "127.0.0.1:10001";
  config.peers = "127.0.0.1:10000,127.0.0.1:10001";
  config.secret = "secret";
  config.socket_dir = "/tmp";
  return config;
}

KF_TEST(Peer, WithoutALauncherIsOneOfOne) {
  StatusOr<std::unique_ptr<Peer>> peer = Peer::Start(Config());
  ASSERT_TRUE(peer.ok());
  EXPECT_EQ((*peer)->session()->rank(), 0);
  EXPECT_EQ((*peer)->session()->size(), 1);
  EXPECT_EQ((*peer)->Totals().connections, 0u);
}

KF_TEST(Peer, ConfigurationsThatCannotBeAreNamed) {
  Config config = Two();
  config.self = "127.0.0.1";
  EXPECT_CONTAINS(StartError(config).message(), "KUNGFU_SELF");
  config = Two();
  config.peers = "127.0.0.1:10000,127.0.0.1:10000";
  EXPECT_CONTAINS(StartError(config).message(), "KUNGFU_PEERS");
  config = Two();
  config.self = "127.0.0.1:9";
  EXPECT_CONTAINS(StartError(config).message(), "is not in KUNGFU_PEERS");
  config = Two();
  config.secret = "";
  EXPECT_CONTAINS(StartError(config).message(), "KUNGFU_SECRET");
  config = Two();
  config.secret = "";
  config.secret_file = "/nonexistent/secret";
  EXPECT_CONTAINS(StartError(config).message(), "/nonexistent/secret");
  config = Config();
  config.simd = "abacus";
  EXPECT_CONTAINS(StartError(config).message(), "KUNGFU_SIMD='abacus': this processor has baseline");
  config = Config();
  config.control = "/nonexistent/control";
  EXPECT_CONTAINS(StartError(config).message(), "/nonexistent/control");
}

KF_TEST(Peer, UsesTheInstructionsThatItIsTold) {
  Config config;
  for (const Instructions instructions : AvailableInstructions()) {
    config.simd = Name(instructions);
    EXPECT_OK(StartError(config));
    EXPECT_EQ(UsedInstructions(), instructions);
  }
  UseInstructions(Instructions::kBaseline);
  EXPECT_OK(StartError(Config()));
  EXPECT_EQ(UsedInstructions(), AvailableInstructions().back());
}

KF_TEST(Peer, ALackOfDescriptorsIsAnError) {
  rlimit limit;
  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  UniqueFd first_free(dup(0)), second_free(dup(0));
  const int numbers[] = {first_free.get(), second_free.get()};
  first_free.Reset();
  second_free.Reset();
  // The loop takes two: there is none, or there is one. Closed again, it is free for the next attempt.
  for (const int free : {0, 1, 0, 1}) {
    const rlimit lowered{static_cast<rlim_t>(numbers[free]), limit.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &lowered), 0);
    const Status status = StartError(Two());
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(status.code(), Code::kResourceExhausted);
    EXPECT_CONTAINS(status.message(), free == 0 ? "epoll" : "eventfd");
  }
}

// Whoever calls it while another thread is about it finds the peer down, too, when the call returns.
KF_TEST(Peer, TheSecondShutdownWaitsForTheFirst) {
  Cluster cluster(2);
  ExpectAllOk(cluster.Run([](int) { return MakeOperation(Kind::kBarrier, "up"); }));
  // Rank 1 does not answer the goodbye: its loop is in a callback.
  std::promise<void> release;
  Operation unnamed = MakeOperation(Kind::kBarrier, "");
  unnamed.done = [released = release.get_future().share()](const Status&) { released.wait(); };
  cluster.session(1)->Start(std::move(unnamed));
  std::future<Status> pending = cluster.Start(0, MakeOperation(Kind::kBarrier, "pending"));
  std::thread first([&] { cluster.Stop(0); });
  EXPECT_EQ(Wait(&pending).code(), Code::kCancelled);  // the first one has begun
  cluster.Stop(0);
  bool inside = true, refused_at_once = false;
  Operation late = MakeOperation(Kind::kBarrier, "late");
  late.done = [&](const Status& status) { refused_at_once = inside && status.code() == Code::kCancelled; };
  cluster.session(0)->Start(std::move(late));
  inside = false;
  first.join();
  EXPECT_TRUE(refused_at_once);
  release.set_value();
}

}  // namespace
}  // namespace kungfu::testing
