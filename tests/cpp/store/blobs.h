// Blobs of numbers, saved and asked for by the peers of a cluster.

#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/store/p2p.h"
#include "tests/cpp/collective/cluster.h"

namespace kungfu::testing {

using Floats = std::vector<float>;

BlobForm FormOf(size_t count, uint64_t shape_digest = 0);
Payload BytesOf(const Floats& values);
// What differs everywhere, so that a part in the wrong place is seen.
Floats Numbers(size_t count, float first);

StatusOr<uint64_t> Save(Cluster* cluster, int rank, const std::string& name, const Floats& values,
                        std::optional<uint64_t> version = std::nullopt, int keep = 0);

// A request, or a get, and what has come of it.
struct Asked {
  Floats values;
  uint64_t handle = 0;
  BlobHead head;
  std::future<Status> status;

  Status Wait() { return testing::Wait(&status); }
};
struct Question {
  Question(std::string name, size_t count = 1, std::optional<uint64_t> version = std::nullopt)  // NOLINT: implicit
      : name(std::move(name)), count(count), version(version) {}

  std::string name;
  size_t count;
  std::optional<uint64_t> version;
  bool takes = false;
  bool waits = true;
  double timeout = 0;
  DType dtype = DType::kFloat32;
  uint64_t shape_digest = 0;
};
std::shared_ptr<Asked> Ask(Cluster* cluster, int rank, int target, const Question& question);

// All peers go over to a new epoch.
void BeginEpoch(Cluster* cluster);

std::future<Status> PutInto(Cluster* cluster, int rank, const std::string& queue, float value, int capacity = 1,
                            double timeout = 0);

}  // namespace kungfu::testing
