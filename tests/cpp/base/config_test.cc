#include "ops/base/config.h"

#include <cstdlib>
#include <map>
#include <string>

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

// Reads the configuration from exactly these variables.
StatusOr<Config> Read(const std::map<std::string, std::string>& environment) {
  for (const ConfigVariable& variable : ConfigVariables()) unsetenv(variable.name);
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  StatusOr<Config> config = Config::FromEnvironment();
  for (const ConfigVariable& variable : ConfigVariables()) unsetenv(variable.name);
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
  EXPECT_EQ(config->strategy, "AUTO");
  EXPECT_EQ(config->transport, "auto");
  EXPECT_EQ(config->chunk_bytes, 1 << 20);
  EXPECT_EQ(config->collective_timeout, 600);
  EXPECT_EQ(config->log_level, 2);
}

KF_TEST(Config, ReadsEveryVariable) {
  const StatusOr<Config> config = Read({
      {"KUNGFU_SELF", "127.0.0.1:1"},
      {"KUNGFU_PEERS", "127.0.0.1:1,127.0.0.1:2"},
      {"KUNGFU_EPOCH", "7"},
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
  EXPECT_EQ(config->epoch, 7);
  EXPECT_EQ(config->job_id, "job");
  EXPECT_EQ(config->secret, "secret");
  EXPECT_EQ(config->secret_file, "/file");
  EXPECT_EQ(config->control, "/control");
  EXPECT_EQ(config->own_cores, 1);
  EXPECT_EQ(config->strategy, "ring");
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
    ExpectRejected("KUNGFU_EPOCH", value);
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
}

KF_TEST(Config, DocumentsEveryVariableOnce) {
  std::map<std::string, std::string> meanings;
  for (const ConfigVariable& variable : ConfigVariables()) {
    EXPECT_EQ(std::string(variable.name).substr(0, 7), "KUNGFU_");
    EXPECT_NE(std::string(variable.meaning), "");
    meanings[variable.name] = variable.meaning;
  }
  EXPECT_EQ(meanings.size(), ConfigVariables().size());
}

KF_TEST(Config, ADefaultIsWhatCouldBeSet) {
  std::map<std::string, std::string> defaults;
  for (const ConfigVariable& variable : ConfigVariables()) {
    defaults[variable.name] = variable.default_text;
    Config config;
    if (!variable.default_text.empty()) EXPECT_TRUE(config.Set(variable.name, variable.default_text).ok());
  }
  EXPECT_EQ(defaults["KUNGFU_SELF"], "");
  EXPECT_EQ(defaults["KUNGFU_TRANSPORT"], "auto");
  EXPECT_EQ(defaults["KUNGFU_SPIN"], "auto");
  EXPECT_EQ(defaults["KUNGFU_CHUNK_BYTES"], "1048576");
  EXPECT_EQ(defaults["KUNGFU_COLLECTIVE_TIMEOUT"], "600");
}

}  // namespace
}  // namespace kungfu
