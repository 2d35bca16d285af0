#include "tests/cpp/collective/cluster.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <set>
#include <utility>

#include "tests/cpp/testing.h"
#include "tests/cpp/transport/tcp_address.h"

namespace kungfu::testing {
namespace {

std::string HostOf(int rank, int size, const ClusterOptions& options) {
  if (options.hosts > 1) return "127.0.0." + std::to_string(1 + rank * options.hosts / size);
  return options.host;
}

}  // namespace

Cluster::Cluster(int size, const ClusterOptions& options) {
  char directory[] = "/tmp/kungfu-test-XXXXXX";
  directory_ = mkdtemp(directory);
  std::string peers;
  std::vector<std::string> names;
  std::set<uint16_t> numbers;  // those of several hosts differ, too: their Unix sockets are in one directory
  for (int rank = 0; rank < size; ++rank) {
    PeerId peer;
    peer.host = *HostAddress::Parse(HostOf(rank, size, options));
    do {
      ports_.push_back(ReservePort(&peer));
    } while (!numbers.insert(peer.port).second);
    names.push_back(peer.ToString());
    peers += (peers.empty() ? "" : ",") + names.back();
  }
  for (int rank = 0; rank < size; ++rank) {
    Config config;
    config.self = names[rank];
    config.peers = peers;
    config.job_id = "test";
    config.secret = "a secret of the test";
    config.strategy = *ParseStrategy(options.strategy);
    config.transport = options.transport;
    config.socket_dir = directory_;
    config.chunk_bytes = options.chunk_bytes;
    config.collective_timeout = options.timeout;
    config.stall_warning = options.stall_warning;
    config.silence_timeout = options.silence_timeout;
    config.direct_bytes = options.direct_bytes;
    config.arena_bytes = static_cast<long>(options.arena_bytes);
    config.log_level = static_cast<int>(options.log_level);
    if (options.own_cores) {
      config.own_cores = true;
      config.spin = options.spin;  // not as if it had any
    }
    arenas_.push_back(options.arena_bytes > 0 ? std::move(*Arena::Create(options.arena_bytes)) : nullptr);
    StatusOr<std::unique_ptr<Peer>> peer = Peer::Start(config, arenas_.back().get());
    if (!peer.ok()) {
      std::fprintf(stderr, "peer %d: %s\n", rank, peer.status().ToString().c_str());
      std::abort();
    }
    peers_.push_back(std::move(*peer));
  }
}

// All take leave at the same time, as at the end of a job.
Cluster::~Cluster() {
  std::vector<std::thread> threads;
  for (auto& peer : peers_) threads.emplace_back([&peer] { peer->Shutdown(); });
  for (std::thread& thread : threads) thread.join();
  peers_.clear();
  std::filesystem::remove_all(directory_);
}

std::future<Status> Cluster::Start(int rank, Operation operation, uint64_t* handle) {
  auto promise = std::make_shared<std::promise<Status>>();
  operation.done = [promise](const Status& status) { promise->set_value(status); };
  const uint64_t started = peers_[rank]->StartOperation(std::move(operation));
  if (handle) *handle = started;
  return promise->get_future();
}

std::vector<Status> Cluster::Run(const std::function<Operation(int rank)>& make) {
  std::vector<std::future<Status>> futures;
  for (int rank = 0; rank < size(); ++rank) futures.push_back(Start(rank, make(rank)));
  std::vector<Status> statuses;
  for (auto& future : futures) statuses.push_back(Wait(&future));
  return statuses;
}

Status Wait(std::future<Status>* future) {
  if (future->wait_for(std::chrono::seconds(240)) == std::future_status::ready) return future->get();
  // Its buffers may still be in use: there is no way to go on.
  Fail(__FILE__, __LINE__, "an operation did not end");
  std::abort();
}

int NumEntries(const char* path) {
  DIR* directory = opendir(path);
  int count = 0;
  while (readdir(directory)) ++count;
  closedir(directory);
  return count;
}

bool ComesDownTo(int most, const char* path) {
  return Becomes([most, path] { return NumEntries(path) <= most; });
}

bool Becomes(const std::function<bool()>& condition) {
  for (int i = 0; i < 60000 && !condition(); ++i) usleep(1000);
  return condition();
}

void ExpectAllOk(const std::vector<Status>& statuses) {
  for (const Status& status : statuses) EXPECT_OK(status);
}

Operation MakeOperation(Kind kind, const std::string& name, DType dtype, ReduceOp op, int root) {
  Operation operation;
  operation.kind = kind;
  operation.name = name;
  operation.dtype = dtype;
  operation.op = op;
  operation.root = root;
  return operation;
}

}  // namespace kungfu::testing
