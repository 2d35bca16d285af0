// Several peers in one process, each with its own loop, sockets and session: as real as separate processes, but for
// what the operating system does when one dies.

#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "ops/base/logging.h"
#include "ops/base/unique_fd.h"
#include "ops/memory/arena.h"
#include "ops/peer/config.h"
#include "ops/peer/peer.h"

namespace kungfu::testing {

struct ClusterOptions {
  std::string strategy = "AUTO";
  std::string transport = "shm";  // unix, tcp
  std::string host = "127.0.0.1";
  int hosts = 1;  // more: addresses of the loopback, from 127.0.0.1 on, with equally many peers on each
  double timeout = 200;
  double stall_warning = 10;
  double silence_timeout = 60;
  long chunk_bytes = 1 << 20;
  size_t arena_bytes = 0;  // what each peer shares with the others
  long direct_bytes = 0;
  bool own_cores = false;  // as if each peer had cores of its own,
  long spin = 0;           // and its threads looked on for so many microseconds
  LogLevel log_level = LogLevel::kError;
};

class Cluster {
 public:
  explicit Cluster(int size, const ClusterOptions& options = {});
  ~Cluster();

  int size() const { return static_cast<int>(peers_.size()); }
  std::shared_ptr<Session> session(int rank) const { return peers_[rank]->session(); }
  Peer* peer(int rank) const { return peers_[rank].get(); }
  Arena* arena(int rank) const { return arenas_[rank].get(); }  // null without arena_bytes
  // Ends one peer, in good order.
  void Stop(int rank) { peers_[rank]->Shutdown(); }

  // Begins the operation on one rank. `handle`, if it is not null, is what it can be cancelled by.
  std::future<Status> Start(int rank, Operation operation, uint64_t* handle = nullptr);
  // Begins what `make` returns on every rank and waits for all. One status per rank; fails the test if an operation
  // does not end.
  std::vector<Status> Run(const std::function<Operation(int rank)>& make);

 private:
  std::string directory_;
  std::vector<UniqueFd> ports_;
  std::vector<std::unique_ptr<Arena>> arenas_;
  std::vector<std::unique_ptr<Peer>> peers_;
};

// The result; fails the test after some minutes.
Status Wait(std::future<Status>* future);
// How many entries a folder has, such as /proc/self/fd.
int NumEntries(const char* path);
// Whether it has at most so many, at once or soon: a thread that has been joined may still be there for a moment.
bool ComesDownTo(int most, const char* path);
// Of what nobody is told of: whether it becomes true within a minute.
bool Becomes(const std::function<bool()>& condition);
void ExpectAllOk(const std::vector<Status>& statuses);

Operation MakeOperation(Kind kind, const std::string& name, DType dtype = DType::kFloat32, ReduceOp op = ReduceOp::kSum,
                        int root = 0);

}  // namespace kungfu::testing
