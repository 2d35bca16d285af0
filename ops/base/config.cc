#include "ops/base/config.h"

#include <charconv>
#include <cstdlib>
#include <locale>
#include <sstream>

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

struct Variable {
  const char* name;
  const char* meaning;
  Parser parse;
  Printer print;
};

template <std::string Config::* field>
Status ParseText(const std::string& text, Config* config) {
  config->*field = text;
  return OkStatus();
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

template <int Config::* field, int least, int most>
Status ParseInt(const std::string& text, Config* config) {
  return ParseInteger(text, least, most, &(config->*field));
}

template <long Config::* field, long least, long most>
Status ParseLong(const std::string& text, Config* config) {
  return ParseInteger(text, least, most, &(config->*field));
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
template <double Config::* field>
Status ParseSeconds(const std::string& text, Config* config) {
  std::istringstream in(text);
  in.imbue(std::locale::classic());
  double value = 0;
  in >> std::noskipws >> value;
  if (in.fail() || in.peek() != std::istringstream::traits_type::eof() || !(value > 0 && value <= kMaxSeconds)) {
    return InvalidArgumentError("expected a number of seconds above 0, at most 1e9");
  }
  config->*field = value;
  return OkStatus();
}

template <auto Config::* field>
std::string Print(const Config& config) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << config.*field;
  return out.str();
}

std::string PrintSpin(const Config& config) { return config.spin < 0 ? "auto" : std::to_string(config.spin); }

const std::vector<Variable>& Variables() {
  static const auto* variables = new std::vector<Variable>{
      {"KUNGFU_SELF", "this peer, \"ip:port\"; without it the process is one of one", ParseText<&Config::self>,
       Print<&Config::self>},
      {"KUNGFU_PEERS", "the session's peers in rank order, \"ip:port,…\"", ParseText<&Config::peers>,
       Print<&Config::peers>},
      {"KUNGFU_EPOCH", "the number of that list", ParseInt<&Config::epoch, 0, 2147483647>, Print<&Config::epoch>},
      {"KUNGFU_MEMBERSHIP", "static; elastic: peers may come and go; joining: and this one is about to come",
       ParseMembership, Print<&Config::membership>},
      {"KUNGFU_JOB_ID", "the same on every peer of a job", ParseText<&Config::job_id>, Print<&Config::job_id>},
      {"KUNGFU_SECRET", "what peers prove to each other", ParseText<&Config::secret>, Print<&Config::secret>},
      {"KUNGFU_SECRET_FILE", "where the secret is read from instead", ParseText<&Config::secret_file>,
       Print<&Config::secret_file>},
      {"KUNGFU_CONTROL", "path of the runner's Unix socket", ParseText<&Config::control>, Print<&Config::control>},
      {"KUNGFU_OWN_CORES", "1: this peer has cores that no other one runs on; set by the launcher",
       ParseInt<&Config::own_cores, 0, 1>, Print<&Config::own_cores>},
      {"KUNGFU_STRATEGY", "how collectives travel: AUTO or a strategy's name", ParseText<&Config::strategy>,
       Print<&Config::strategy>},
      {"KUNGFU_TRANSPORT", "auto, shm, unix or tcp; with unix and tcp as with KUNGFU_DIRECT=off", ParseTransport,
       Print<&Config::transport>},
      {"KUNGFU_SOCKET_DIR", "private directory of the host's Unix sockets", ParseText<&Config::socket_dir>,
       Print<&Config::socket_dir>},
      {"KUNGFU_CHUNK_BYTES", "the largest chunk of a tensor",
       ParseLong<&Config::chunk_bytes, kMinChunkBytes, kMaxChunkBytes>, Print<&Config::chunk_bytes>},
      {"KUNGFU_DIRECT", "auto, or off: no all_reduce in the memory of the host's peers, without copies", ParseDirect,
       Print<&Config::direct>},
      {"KUNGFU_DIRECT_BYTES", "the smallest all_reduce that is done there",
       ParseLong<&Config::direct_bytes, 0, kMaxBytes>, Print<&Config::direct_bytes>},
      {"KUNGFU_ARENA_BYTES", "the most memory that a peer shares with others of its host; 0: none",
       ParseLong<&Config::arena_bytes, 0, kMaxBytes>, Print<&Config::arena_bytes>},
      {"KUNGFU_STORE_VERSIONS", "of a saved variable, how many versions are kept",
       ParseInt<&Config::store_versions, 1, 1 << 20>, Print<&Config::store_versions>},
      {"KUNGFU_SPIN", "auto, or microseconds at most to look on before sleeping", ParseSpin, PrintSpin},
      {"KUNGFU_COLLECTIVE_TIMEOUT", "seconds until an operation fails", ParseSeconds<&Config::collective_timeout>,
       Print<&Config::collective_timeout>},
      {"KUNGFU_STALL_WARNING", "seconds until it is said who is missing", ParseSeconds<&Config::stall_warning>,
       Print<&Config::stall_warning>},
      {"KUNGFU_SILENCE_TIMEOUT", "seconds until a peer that answers nothing is given up",
       ParseSeconds<&Config::silence_timeout>, Print<&Config::silence_timeout>},
      {"KUNGFU_CONNECT_TIMEOUT", "seconds to wait for a peer to come up", ParseSeconds<&Config::connect_timeout>,
       Print<&Config::connect_timeout>},
      {"KUNGFU_LOG_LEVEL", "0 debug, 1 info, 2 warning, 3 error", ParseInt<&Config::log_level, 0, 3>,
       Print<&Config::log_level>},
  };
  return *variables;
}

}  // namespace

Status Config::Set(const std::string& name, const std::string& text) {
  for (const Variable& variable : Variables()) {
    if (variable.name == name) return variable.parse(text, this).WithContext(name + "='" + text + "'");
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
      list->push_back({variable.name, variable.meaning, variable.print(Config())});
    }
    return list;
  }();
  return *documented;
}

}  // namespace kungfu
