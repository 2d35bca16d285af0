#include "ops/peer/config.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <locale>
#include <sstream>
#include <utility>

#include "ops/base/logging.h"
#include "ops/plan/partition.h"

namespace kungfu {
namespace {

// Enough for any session of any job; keeps sums of times within the clock's range.
constexpr double kMaxSeconds = 1e9;
constexpr long kMaxSpin = 1000000;
constexpr long kMaxBytes = 1L << 44;

// The type of a setting.
struct Type {
  std::string words;
  // Puts a text into its place. False: it is not of this type.
  std::function<bool(const std::string& text, Config* config)> read;
  const char* unit = "";
  bool secret = false;
};

// "a, b or c"
std::string AnyOf(const std::vector<std::string>& choices) {
  std::string text = choices[0];
  for (size_t i = 1; i < choices.size(); ++i) text += (i + 1 == choices.size() ? " or " : ", ") + choices[i];
  return text;
}

Type Text(std::string Config::* field, const char* words) {
  const auto read = [field](const std::string& text, Config* config) {
    config->*field = text;
    return true;
  };
  return {words, read};
}

Type SecretText(std::string Config::* field) {
  Type type = Text(field, "text");
  type.secret = true;
  return type;
}

Type OneOf(std::string Config::* field, const std::vector<std::string>& choices) {
  const auto read = [field, choices](const std::string& text, Config* config) {
    config->*field = text;
    return std::find(choices.begin(), choices.end(), text) != choices.end();
  };
  return {AnyOf(choices), read};
}

Type Switch(bool Config::* field) {
  const auto read = [field](const std::string& text, Config* config) {
    config->*field = text == "1";
    return text == "0" || text == "1";
  };
  return {"0 or 1", read};
}

template <typename Integer>
bool ReadInteger(const std::string& text, Integer least, Integer most, Integer* out) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *out);
  return error == std::errc() && stop == end && *out >= least && *out <= most;
}

template <typename Integer>
Type IntegerFrom(Integer least, Integer most, Integer Config::* field, const char* unit = "") {
  const auto read = [least, most, field](const std::string& text, Config* config) {
    return ReadInteger(text, least, most, &(config->*field));
  };
  return {"an integer from " + std::to_string(least) + " to " + std::to_string(most), read, unit};
}

// With the decimal point of the C locale, not the program's.
Type InSeconds(double Config::* field) {
  const auto read = [field](const std::string& text, Config* config) {
    std::istringstream in(text);
    in.imbue(std::locale::classic());
    in >> std::noskipws >> config->*field;
    const double value = config->*field;
    return !in.fail() && in.peek() == std::istringstream::traits_type::eof() && value > 0 && value <= kMaxSeconds;
  };
  return {"a number above 0, at most 1e9", read, "seconds"};
}

Type SpinTime() {
  Type type = IntegerFrom(0L, kMaxSpin, &Config::spin, "microseconds");
  type.words = "auto, or " + type.words;
  type.read = [read = type.read](const std::string& text, Config* config) {
    config->spin = -1;
    return text == "auto" || read(text, config);
  };
  return type;
}

Type NameOfStrategy() {
  std::vector<std::string> names;
  for (int i = 0; i < kNumStrategies; ++i) names.push_back(Name(static_cast<StrategyName>(i)));
  const auto read = [](const std::string& text, Config* config) {
    const StatusOr<StrategyName> name = ParseStrategy(text);
    if (name.ok()) config->strategy = *name;
    return name.ok();
  };
  return {AnyOf(names), read};
}

enum SetBy { kUser, kLauncher };

struct Row {
  const char* name;
  SetBy set_by;
  Type type;
  const char* default_text;
  const char* meaning;
};

const std::vector<Row>& Rows() {
  static const auto* rows = new std::vector<Row>{
      {"KUNGFU_SELF", kLauncher, Text(&Config::self, "ip:port"), "",
       "address of this peer; without it the process is one of one"},
      {"KUNGFU_PEERS", kLauncher, Text(&Config::peers, "ip:port, separated by commas"), "",
       "addresses of all peers in rank order"},
      {"KUNGFU_MEMBERSHIP_VERSION", kLauncher, IntegerFrom(0, 2147483647, &Config::membership_version), "0",
       "version of the membership that KUNGFU_PEERS lists"},
      {"KUNGFU_MEMBERSHIP", kLauncher, OneOf(&Config::membership, {"static", "elastic", "joining"}), "static",
       "elastic: peers may come and go; joining: so may this one, which is about to come"},
      {"KUNGFU_JOB_ID", kLauncher, Text(&Config::job_id, "text"), "", "name of the job, the same on every peer"},
      {"KUNGFU_CONTROL", kLauncher, Text(&Config::control, "path"), "", "Unix socket of the runner"},
      {"KUNGFU_SOCKET_DIR", kLauncher, Text(&Config::socket_dir, "path"), "",
       "private directory of the host's Unix sockets, the same for all its peers"},
      {"KUNGFU_OWN_CORES", kLauncher, Switch(&Config::own_cores), "0",
       "1: no other peer runs on the cores of this one"},
      {"KUNGFU_SURVIVE", kLauncher, Switch(&Config::survives), "0",
       "1: when a peer's process is lost, the others repeat what they were doing, and go on without it"},
      {"KUNGFU_SECRET", kUser, SecretText(&Config::secret), "", "secret that all peers of a job share"},
      {"KUNGFU_SECRET_FILE", kUser, Text(&Config::secret_file, "path"), "", "file with that secret in its first line"},
      {"KUNGFU_STRATEGY", kUser, NameOfStrategy(), "AUTO", "graphs along which collectives travel"},
      {"KUNGFU_TRANSPORT", kUser, OneOf(&Config::transport, {"auto", "shm", "unix", "tcp"}), "auto",
       "transport between peers; unix and tcp carry all data, as with KUNGFU_DIRECT=off"},
      {"KUNGFU_CHUNK_BYTES", kUser, IntegerFrom<long>(kMinChunkBytes, kMaxChunkBytes, &Config::chunk_bytes, "bytes"),
       "1048576", "size of the largest chunk of a tensor"},
      {"KUNGFU_DIRECT", kUser, OneOf(&Config::direct, {"auto", "off"}), "auto",
       "auto: peers of a host reduce large tensors in memory that they share, without copies"},
      {"KUNGFU_DIRECT_BYTES", kUser, IntegerFrom(0L, kMaxBytes, &Config::direct_bytes, "bytes"), "65536",
       "size of the smallest tensor that is reduced so"},
      {"KUNGFU_ARENA_BYTES", kUser, IntegerFrom(0L, kMaxBytes, &Config::arena_bytes, "bytes"), "68719476736",
       "most memory that a peer shares with the others of its host; 0: none"},
      {"KUNGFU_SIMD", kUser, OneOf(&Config::simd, {"auto", "baseline", "avx2", "avx512"}), "auto",
       "vector instructions of the core's arithmetic; auto: the best that the processor has"},
      {"KUNGFU_STORE_VERSIONS", kUser, IntegerFrom(1, 1 << 20, &Config::store_versions), "3",
       "number of versions that are kept of a saved variable"},
      {"KUNGFU_SPIN", kUser, SpinTime(), "auto",
       "longest time that a waiting peer looks for messages before it sleeps"},
      {"KUNGFU_COLLECTIVE_TIMEOUT", kUser, InSeconds(&Config::collective_timeout), "600",
       "time until a collective fails"},
      {"KUNGFU_STALL_WARNING", kUser, InSeconds(&Config::stall_warning), "10",
       "time until a warning names the peers that a collective waits for"},
      {"KUNGFU_SILENCE_TIMEOUT", kUser, InSeconds(&Config::silence_timeout), "60",
       "time until a peer that answers nothing counts as failed"},
      {"KUNGFU_CONNECT_TIMEOUT", kUser, InSeconds(&Config::connect_timeout), "600",
       "time to wait for a peer to come up"},
      {"KUNGFU_LOG_LEVEL", kUser, IntegerFrom(0, 3, &Config::log_level), "2",
       "lowest level that is logged: 0 debug, 1 info, 2 warning, 3 error"},
      {"KUNGFU_TIMELINE", kUser, Text(&Config::timeline, "path"), "",
       "file of rank 0's operations for chrome://tracing; that of rank 1 has .1 behind its name, and so on"},
  };
  return *rows;
}

}  // namespace

Config::Config() {
  for (const Row& row : Rows()) KF_CHECK(row.type.read(row.default_text, this)) << row.name;
}

Status Config::Set(const std::string& name, const std::string& text) {
  for (const Row& row : Rows()) {
    if (row.name != name) continue;
    Config changed = *this;
    if (row.type.read(text, &changed)) {
      *this = std::move(changed);
      return OkStatus();
    }
    const std::string unit = *row.type.unit == '\0' ? "" : ", in " + std::string(row.type.unit);
    return InvalidArgumentError(name + "='" + text + "': expected " + row.type.words + unit);
  }
  return InvalidArgumentError(name + ": there is no such variable");
}

StatusOr<Config> Config::FromEnvironment() {
  Config config;
  for (const Row& row : Rows()) {
    const char* text = std::getenv(row.name);
    if (text != nullptr && *text != '\0') KF_RETURN_IF_ERROR(config.Set(row.name, text));
  }
  return config;
}

bool Config::SharesMemory() const {
  return direct != "off" && arena_bytes > 0 && (transport == "auto" || transport == "shm");
}

const std::vector<Setting>& Settings() {
  static const auto* settings = [] {
    auto* list = new std::vector<Setting>;
    for (const auto& [name, set_by, type, default_text, meaning] : Rows()) {
      list->push_back({name, meaning, type.words, type.unit, default_text, set_by == kLauncher, type.secret});
    }
    return list;
  }();
  return *settings;
}

}  // namespace kungfu
