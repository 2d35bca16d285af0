#include "ops/base/config.h"

#include <charconv>
#include <cstdlib>
#include <locale>
#include <sstream>
#include <type_traits>

namespace kungfu {
namespace {

// Enough for any session of any job; keeps sums of times within the clock's range.
constexpr double kMaxSeconds = 1e9;
// Below, the header of a chunk would weigh more than a per cent of it.
constexpr long kMinChunkBytes = 4096;
constexpr long kMaxChunkBytes = 1 << 30;
constexpr long kMaxSpin = 1000000;
constexpr long kMaxBytes = 1L << 44;

// Puts a text into its place in a Config. An error says what would have been right.
using Parser = Status (*)(const std::string& text, Config* config);
// The other way: a text that the parser would make this of.
using Printer = std::string (*)(const Config& config);

// What a variable sets, read and shown.
struct Field {
  Parser parse;
  Printer print;
};

struct Variable {
  const char* name;
  const char* meaning;
  Field field;
};

template <auto Config::* field>
std::string Print(const Config& config) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << config.*field;
  return out.str();
}

template <std::string Config::* field>
Field Text() {
  const Parser parse = [](const std::string& text, Config* config) {
    config->*field = text;
    return OkStatus();
  };
  return {parse, Print<field>};
}

Status ParseTransport(const std::string& text, Config* config) {
  if (text != "auto" && text != "shm" && text != "unix" && text != "tcp") {
    return InvalidArgumentError("expected auto, shm, unix or tcp");
  }
  config->transport = text;
  return OkStatus();
}

Status ParseMembership(const std::string& text, Config* config) {
  if (text != "static" && text != "elastic" && text != "joining") {
    return InvalidArgumentError("expected static, elastic or joining");
  }
  config->membership = text;
  return OkStatus();
}

Status ParseDirect(const std::string& text, Config* config) {
  if (text != "auto" && text != "off") return InvalidArgumentError("expected auto or off");
  config->direct = text;
  return OkStatus();
}

template <typename Integer>
Status ParseInteger(const std::string& text, Integer least, Integer most, Integer* out) {
  Integer value;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < least || value > most) {
    return InvalidArgumentError("expected an integer from " + std::to_string(least) + " to " + std::to_string(most));
  }
  *out = value;
  return OkStatus();
}

template <auto Config::* field, long least, long most>
Field Integer() {
  const Parser parse = [](const std::string& text, Config* config) {
    using Type = std::remove_reference_t<decltype(config->*field)>;
    return ParseInteger(text, Type{least}, Type{most}, &(config->*field));
  };
  return {parse, Print<field>};
}

Status ParseSpin(const std::string& text, Config* config) {
  if (text == "auto") {
    config->spin = -1;
    return OkStatus();
  }
  const Status status = ParseInteger(text, 0L, kMaxSpin, &config->spin);
  return status.ok() ? status
                     : InvalidArgumentError("expected auto, or microseconds from 0 to " + std::to_string(kMaxSpin));
}

// With the point of the C locale, whatever the program has chosen.
Status ReadSeconds(const std::string& text, double* out) {
  std::istringstream in(text);
  in.imbue(std::locale::classic());
  double value = 0;
  in >> std::noskipws >> value;
  if (in.fail() || in.peek() != std::istringstream::traits_type::eof() || !(value > 0 && value <= kMaxSeconds)) {
    return InvalidArgumentError("expected a number of seconds above 0, at most 1e9");
  }
  *out = value;
  return OkStatus();
}

template <double Config::* field>
Field InSeconds() {
  const Parser parse = [](const std::string& text, Config* config) { return ReadSeconds(text, &(config->*field)); };
  return {parse, Print<field>};
}

std::string PrintSpin(const Config& config) { return config.spin < 0 ? "auto" : std::to_string(config.spin); }

const std::vector<Variable>& Variables() {
  static const auto* variables = new std::vector<Variable>{
      {"KUNGFU_SELF", "this peer, \"ip:port\"; without it the process is one of one", Text<&Config::self>()},
      {"KUNGFU_PEERS", "the session's peers in rank order, \"ip:port,…\"", Text<&Config::peers>()},
      {"KUNGFU_EPOCH", "the number of that list", Integer<&Config::epoch, 0, 2147483647>()},
      {"KUNGFU_MEMBERSHIP",
       "static; elastic: peers may come and go; joining: and this one is about to come",
       {ParseMembership, Print<&Config::membership>}},
      {"KUNGFU_JOB_ID", "the same on every peer of a job", Text<&Config::job_id>()},
      {"KUNGFU_SECRET", "what peers prove to each other", Text<&Config::secret>()},
      {"KUNGFU_SECRET_FILE", "where the secret is read from instead", Text<&Config::secret_file>()},
      {"KUNGFU_CONTROL", "path of the runner's Unix socket", Text<&Config::control>()},
      {"KUNGFU_OWN_CORES", "1: this peer has cores that no other one runs on; set by the launcher",
       Integer<&Config::own_cores, 0, 1>()},
      {"KUNGFU_STRATEGY", "how collectives travel: AUTO or a strategy's name", Text<&Config::strategy>()},
      {"KUNGFU_TRANSPORT",
       "auto, shm, unix or tcp; with unix and tcp as with KUNGFU_DIRECT=off",
       {ParseTransport, Print<&Config::transport>}},
      {"KUNGFU_SOCKET_DIR", "private directory of the host's Unix sockets", Text<&Config::socket_dir>()},
      {"KUNGFU_CHUNK_BYTES", "the largest chunk of a tensor",
       Integer<&Config::chunk_bytes, kMinChunkBytes, kMaxChunkBytes>()},
      {"KUNGFU_DIRECT",
       "auto, or off: no all_reduce in the memory of the host's peers, without copies",
       {ParseDirect, Print<&Config::direct>}},
      {"KUNGFU_DIRECT_BYTES", "the smallest all_reduce that is done there",
       Integer<&Config::direct_bytes, 0, kMaxBytes>()},
      {"KUNGFU_ARENA_BYTES", "the most memory that a peer shares with others of its host; 0: none",
       Integer<&Config::arena_bytes, 0, kMaxBytes>()},
      {"KUNGFU_STORE_VERSIONS", "of a saved variable, how many versions are kept",
       Integer<&Config::store_versions, 1, 1 << 20>()},
      {"KUNGFU_SPIN", "auto, or microseconds at most to look on before sleeping", {ParseSpin, PrintSpin}},
      {"KUNGFU_COLLECTIVE_TIMEOUT", "seconds until an operation fails", InSeconds<&Config::collective_timeout>()},
      {"KUNGFU_STALL_WARNING", "seconds until it is said who is missing", InSeconds<&Config::stall_warning>()},
      {"KUNGFU_SILENCE_TIMEOUT", "seconds until a peer that answers nothing is given up",
       InSeconds<&Config::silence_timeout>()},
      {"KUNGFU_CONNECT_TIMEOUT", "seconds to wait for a peer to come up", InSeconds<&Config::connect_timeout>()},
      {"KUNGFU_LOG_LEVEL", "0 debug, 1 info, 2 warning, 3 error", Integer<&Config::log_level, 0, 3>()},
  };
  return *variables;
}

}  // namespace

Status Config::Set(const std::string& name, const std::string& text) {
  for (const Variable& variable : Variables()) {
    if (variable.name == name) return variable.field.parse(text, this).WithContext(name + "='" + text + "'");
  }
  return InvalidArgumentError(name + ": there is no such variable");
}

StatusOr<Config> Config::FromEnvironment() {
  Config config;
  for (const Variable& variable : Variables()) {
    const char* text = std::getenv(variable.name);
    if (text != nullptr && *text != '\0') KF_RETURN_IF_ERROR(config.Set(variable.name, text));
  }
  return config;
}

bool Config::SharesMemory() const {
  return direct != "off" && arena_bytes > 0 && (transport == "auto" || transport == "shm");
}

const std::vector<ConfigVariable>& ConfigVariables() {
  static const auto* documented = [] {
    auto* list = new std::vector<ConfigVariable>;
    for (const Variable& variable : Variables()) {
      list->push_back({variable.name, variable.meaning, variable.field.print(Config())});
    }
    return list;
  }();
  return *documented;
}

}  // namespace kungfu
