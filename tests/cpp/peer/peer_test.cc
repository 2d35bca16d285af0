#include "ops/peer/peer.h"

#include <string>

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
  config.strategy = "SPIRAL";
  EXPECT_CONTAINS(StartError(config).message(), "SPIRAL");
  config = Two();
  config.secret = "";
  EXPECT_CONTAINS(StartError(config).message(), "KUNGFU_SECRET");
  config = Two();
  config.secret = "";
  config.secret_file = "/nonexistent/secret";
  EXPECT_CONTAINS(StartError(config).message(), "/nonexistent/secret");
}

}  // namespace
}  // namespace kungfu::testing
