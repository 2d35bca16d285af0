#include "tests/cpp/c_api/processes.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

// REQUIRES: this process has one thread.
pid_t Fork(const Environment& environment, const std::function<void()>& body) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  alarm(600);  // nobody waits for a child for ever
  const int before = NumFailures();
  body();
  _exit(NumFailures() == before ? 0 : 1);
}

void Join(pid_t pid) {
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
}

}  // namespace

void InProcess(const Environment& environment, const std::function<void()>& body) { Join(Fork(environment, body)); }

void InPeers(int size, const std::function<void(int rank)>& body) {
  InPeersOneKilled(size, body, -1, [] {});
}

void InPeersOneKilled(int size, const std::function<void(int rank)>& body, int victim,
                      const std::function<void()>& when) {
  char directory[] = "/tmp/kungfu-test-XXXXXX";
  EXPECT_TRUE(mkdtemp(directory) != nullptr);
  // Without another host no port is opened: these numbers are names of sockets.
  std::vector<std::string> names;
  std::string peers;
  for (int rank = 0; rank < size; ++rank) {
    names.push_back("127.0.0.1:" + std::to_string(1 + rank));
    peers += (rank == 0 ? "" : ",") + names.back();
  }
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    children.push_back(Fork({{"KUNGFU_SELF", names[rank]},
                             {"KUNGFU_PEERS", peers},
                             {"KUNGFU_SECRET", "a secret of the test"},
                             {"KUNGFU_SOCKET_DIR", directory}},
                            [&] { body(rank); }));
  }
  when();
  if (victim >= 0) {
    kill(children[victim], SIGKILL);
    waitpid(children[victim], nullptr, 0);
    children.erase(children.begin() + victim);
  }
  for (const pid_t child : children) Join(child);
  std::filesystem::remove_all(directory);
}

}  // namespace kungfu::testing
