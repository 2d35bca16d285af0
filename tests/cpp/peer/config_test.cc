#include "ops/peer/config.h"

#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

// Reads the configuration from exactly these variables.
StatusOr<Config> Read(const std::map<std::string, std::string>& environment) {
  for (const Setting& setting : Settings()) unsetenv(setting.name);
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  StatusOr<Config> config = Config::FromEnvironment();
  for (const Setting& setting : Settings()) unsetenv(setting.name);
  return config;
}

void ExpectRejected(const std::string& name, const std::string& value) {
  const StatusOr<Config> config = Read({{name, value}});
  ASSERT_TRUE(!config.ok());
  EXPECT_EQ(config.status().code(), Code::kInvalidArgument);
  EXPECT_CONTAINS(config.status().message(), name + "='" + value + "': expected ");
}

KF_TEST(Config, HasDefaults) {
  const StatusOr<Config> config = Read({});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->self, "");
  EXPECT_TRUE(config->strategy == StrategyName::kAuto);
  EXPECT_EQ(config->transport, "auto");
  EXPECT_EQ(config->membership, "static");
  EXPECT_FALSE(config->own_cores);
  EXPECT_EQ(config->membership_version, 0);
  EXPECT_EQ(config->spin, -1);
  EXPECT_EQ(config->chunk_bytes, 1 << 20);
  EXPECT_EQ(config->collective_timeout, 600);
  EXPECT_EQ(config->log_level, 2);
}

KF_TEST(Config, ReadsEveryVariable) {
  const StatusOr<Config> config = Read({
      {"KUNGFU_SELF", "127.0.0.1:1"},
      {"KUNGFU_PEERS", "127.0.0.1:1,127.0.0.1:2"},
      {"KUNGFU_MEMBERSHIP_VERSION", "7"},
      {"KUNGFU_JOB_ID", "job"},
      {"KUNGFU_SECRET", "secret"},
      {"KUNGFU_SECRET_FILE", "/file"},
      {"KUNGFU_CONTROL", "/control"},
      {"KUNGFU_STRATEGY", "ring"},
      {"KUNGFU_OWN_CORES", "1"},
      {"KUNGFU_TRANSPORT", "tcp"},
      {"KUNGFU_SOCKET_DIR", "/dir"},
      {"KUNGFU_CHUNK_BYTES", "65536"},
      {"KUNGFU_DIRECT", "off"},
      {"KUNGFU_DIRECT_BYTES", "0"},
      {"KUNGFU_ARENA_BYTES", "5000000000"},
      {"KUNGFU_SPIN", "20"},
      {"KUNGFU_COLLECTIVE_TIMEOUT", "1.5"},
      {"KUNGFU_STALL_WARNING", "2.25"},
      {"KUNGFU_SILENCE_TIMEOUT", "3e1"},
      {"KUNGFU_CONNECT_TIMEOUT", "40"},
      {"KUNGFU_LOG_LEVEL", "0"},
  });
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->self, "127.0.0.1:1");
  EXPECT_EQ(config->peers, "127.0.0.1:1,127.0.0.1:2");
  EXPECT_EQ(config->membership_version, 7);
  EXPECT_EQ(config->job_id, "job");
  EXPECT_EQ(config->secret, "secret");
  EXPECT_EQ(config->secret_file, "/file");
  EXPECT_EQ(config->control, "/control");
  EXPECT_TRUE(config->own_cores);
  EXPECT_TRUE(config->strategy == StrategyName::kRing);
  EXPECT_EQ(config->transport, "tcp");
  EXPECT_EQ(config->socket_dir, "/dir");
  EXPECT_EQ(config->chunk_bytes, 65536);
  EXPECT_EQ(config->direct, "off");
  EXPECT_EQ(config->direct_bytes, 0);
  EXPECT_EQ(config->arena_bytes, 5000000000);
  EXPECT_EQ(config->spin, 20);
  EXPECT_EQ(config->collective_timeout, 1.5);
  EXPECT_EQ(config->stall_warning, 2.25);
  EXPECT_EQ(config->silence_timeout, 30);
  EXPECT_EQ(config->connect_timeout, 40);
  EXPECT_EQ(config->log_level, 0);
}

KF_TEST(Config, EmptyIsUnset) {
  const StatusOr<Config> config = Read({{"KUNGFU_LOG_LEVEL", ""}, {"KUNGFU_TRANSPORT", ""}});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->log_level, 2);
  EXPECT_EQ(config->transport, "auto");
}

KF_TEST(Config, NamesWhatItCannotUnderstand) {
  for (const char* value : {"seven", "7x", " 7", "7 ", "0x7", "-1", "+7", "2147483648", "99999999999999999999"}) {
    ExpectRejected("KUNGFU_MEMBERSHIP_VERSION", value);
  }
  for (const char* value : {"4", "-1", "warning"}) ExpectRejected("KUNGFU_LOG_LEVEL", value);
  for (const char* value : {"0", "4095", "1073741825", "1M"}) ExpectRejected("KUNGFU_CHUNK_BYTES", value);
  for (const char* value : {"on", "AUTO", "0"}) ExpectRejected("KUNGFU_DIRECT", value);
  for (const char* value : {"-1", "1G"}) ExpectRejected("KUNGFU_ARENA_BYTES", value);
  for (const char* value : {"0", "-1", "nan", "inf", "1e10", "10s", " 10", "10 ", "1,5"}) {
    ExpectRejected("KUNGFU_COLLECTIVE_TIMEOUT", value);
  }
  for (const char* value : {"-1", "1000001", "AUTO", "50us"}) ExpectRejected("KUNGFU_SPIN", value);
  for (const char* value : {"TCP", "rdma", "tcp,unix"}) ExpectRejected("KUNGFU_TRANSPORT", value);
  for (const char* value : {"MESH", "RING "}) ExpectRejected("KUNGFU_STRATEGY", value);
  for (const char* value : {"2", "yes"}) ExpectRejected("KUNGFU_OWN_CORES", value);
}

KF_TEST(Config, AnErrorSaysInWhichUnit) {
  const auto said = [](const char* name) { return Read({{name, "-7"}}).status().message(); };
  EXPECT_EQ(said("KUNGFU_STALL_WARNING"),
            "KUNGFU_STALL_WARNING='-7': expected a number above 0, at most 1e9, in seconds");
  EXPECT_EQ(said("KUNGFU_SPIN"), "KUNGFU_SPIN='-7': expected auto, or an integer from 0 to 1000000, in microseconds");
  EXPECT_EQ(said("KUNGFU_LOG_LEVEL"), "KUNGFU_LOG_LEVEL='-7': expected an integer from 0 to 3");
  EXPECT_EQ(said("KUNGFU_TRANSPORT"), "KUNGFU_TRANSPORT='-7': expected auto, shm, unix or tcp");
}

KF_TEST(Config, EverySettingIsDeclaredOnceWithItsMeaning) {
  std::set<std::string> names;
  for (const Setting& setting : Settings()) {
    EXPECT_EQ(std::string(setting.name).substr(0, 7), "KUNGFU_");
    EXPECT_NE(std::string(setting.meaning), "");
    EXPECT_NE(setting.type, "");
    names.insert(setting.name);
  }
  EXPECT_EQ(names.size(), Settings().size());
}

KF_TEST(Config, ADefaultIsWhatCouldBeSet) {
  std::map<std::string, std::string> defaults;
  for (const Setting& setting : Settings()) {
    defaults[setting.name] = setting.default_text;
    Config config;
    if (*setting.default_text != '\0') EXPECT_OK(config.Set(setting.name, setting.default_text));
  }
  EXPECT_EQ(defaults["KUNGFU_SELF"], "");
  EXPECT_EQ(defaults["KUNGFU_TRANSPORT"], "auto");
  EXPECT_EQ(defaults["KUNGFU_SPIN"], "auto");
  EXPECT_EQ(defaults["KUNGFU_SIMD"], "auto");
  EXPECT_EQ(defaults["KUNGFU_CHUNK_BYTES"], "1048576");
  EXPECT_EQ(defaults["KUNGFU_COLLECTIVE_TIMEOUT"], "600");
}

KF_TEST(Config, WhatIsNotUnderstoodChangesNothing) {
  Config config;
  EXPECT_OK(config.Set("KUNGFU_SPIN", "7"));
  EXPECT_OK(config.Set("KUNGFU_DIRECT", "off"));
  EXPECT_FALSE(config.Set("KUNGFU_SPIN", "7x").ok() || config.Set("KUNGFU_DIRECT", "on").ok());
  EXPECT_EQ(config.spin, 7);
  EXPECT_EQ(config.direct, "off");
  EXPECT_CONTAINS(config.Set("KUNGFU_MINE", "x").message(), "KUNGFU_MINE: there is no such variable");
}

}  // namespace
}  // namespace kungfu
