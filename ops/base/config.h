// Every KUNGFU_* variable that the core reads: declared once, with its meaning. `python -m kungfu_tf.info` prints them,
// with those of Python.

#pragma once

#include <string>
#include <vector>

#include "ops/base/status.h"

namespace kungfu {

struct Config {
  // Who and where. Without `self` the process is one of one.
  std::string self;                   // KUNGFU_SELF: this peer, "ip:port"
  std::string peers;                  // KUNGFU_PEERS: the session's peers in rank order, "ip:port,…"
  int epoch = 0;                      // KUNGFU_EPOCH: the number of that list
  std::string membership = "static";  // KUNGFU_MEMBERSHIP: static, elastic or joining
  std::string job_id;                 // KUNGFU_JOB_ID: the same on every peer of a job
  std::string secret;                 // KUNGFU_SECRET: what peers prove to each other
  std::string secret_file;            // KUNGFU_SECRET_FILE: where the secret is read from instead
  std::string control;                // KUNGFU_CONTROL: path of the runner's Unix socket
  int own_cores = 0;                  // KUNGFU_OWN_CORES: 1: it has cores that no other peer runs on

  // How.
  std::string strategy = "AUTO";    // KUNGFU_STRATEGY
  std::string transport = "auto";   // KUNGFU_TRANSPORT: auto, shm, unix or tcp; the last two carry all data
  std::string socket_dir;           // KUNGFU_SOCKET_DIR: private directory of the host's Unix sockets
  long chunk_bytes = 1 << 20;       // KUNGFU_CHUNK_BYTES: the largest chunk of a tensor
  std::string direct = "auto";      // KUNGFU_DIRECT: auto, or off: no all_reduce in the host's peers' own memory
  long direct_bytes = 64 << 10;     // KUNGFU_DIRECT_BYTES: the smallest all_reduce that is done there
  long arena_bytes = 64L << 30;     // KUNGFU_ARENA_BYTES: the most memory that peers of a host can share; 0: none
  int store_versions = 3;           // KUNGFU_STORE_VERSIONS: of a saved variable, how many are kept
  long spin = -1;                   // KUNGFU_SPIN: microseconds to look on before sleeping; -1: auto
  double collective_timeout = 600;  // KUNGFU_COLLECTIVE_TIMEOUT: seconds until an operation fails
  double stall_warning = 10;        // KUNGFU_STALL_WARNING: seconds until it is said who is missing
  double silence_timeout = 60;      // KUNGFU_SILENCE_TIMEOUT: seconds until a peer that answers nothing is given up
  double connect_timeout = 600;     // KUNGFU_CONNECT_TIMEOUT: seconds to wait for a peer to come up
  int log_level = 2;                // KUNGFU_LOG_LEVEL: 0 debug, 1 info, 2 warning, 3 error

  // Whether all_reduces may use the memory of the host's peers. A transport that is forced carries all data itself.
  bool SharesMemory() const;

  // Takes over what the variable `name` says. An error names it, what it says, and what would have been right.
  Status Set(const std::string& name, const std::string& text);
  // All that are set, and not empty.
  static StatusOr<Config> FromEnvironment();
};

struct ConfigVariable {
  const char* name;
  const char* meaning;
  std::string default_text;  // what holds where it is not set, as it would be set
};
// All of the above, in order.
const std::vector<ConfigVariable>& ConfigVariables();

}  // namespace kungfu
