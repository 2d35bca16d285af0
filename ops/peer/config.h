// The settings of the core: environment variables, each declared once, by a row in config.cc. `python -m
// kungfu_tf.info` and the documentation print these rows, with those of kungfu_tf/config.py.

#pragma once

#include <string>
#include <vector>

#include "ops/base/status.h"
#include "ops/plan/strategy.h"

namespace kungfu {

// The settings of a peer. The row of KUNGFU_CHUNK_BYTES has the meaning and the default of chunk_bytes.
struct Config {
  // All defaults.
  Config();

  // Identity and place.
  std::string self, peers;
  int membership_version;
  std::string membership, job_id, secret, secret_file, control;
  bool own_cores, survives;

  // How.
  StrategyName strategy;
  std::string transport, socket_dir;
  long chunk_bytes;
  std::string direct, simd;
  long direct_bytes, arena_bytes;
  int store_versions;
  long spin;  // -1: auto
  double collective_timeout, stall_warning, silence_timeout, connect_timeout;
  int log_level;
  std::string timeline;

  // Whether all_reduces may use the memory of the host's peers. A transport that is forced carries all data itself.
  bool SharesMemory() const;

  // Sets the variable `name`. An error names it, its text, and the allowed values.
  Status Set(const std::string& name, const std::string& text);
  // All that are set, and not empty.
  static StatusOr<Config> FromEnvironment();
};

struct Setting {
  const char* name;
  const char* meaning;
  std::string type;          // the allowed values: "an integer from 0 to 3"
  const char* unit;          // of a number: "seconds"; or empty
  const char* default_text;  // as it would be set; empty: there is none
  bool internal;             // the launcher tells its peers; users do not set it
  bool secret;               // the value is never printed
};
// All, in the order of the rows.
const std::vector<Setting>& Settings();

}  // namespace kungfu
