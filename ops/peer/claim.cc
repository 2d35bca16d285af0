#include "ops/peer/claim.h"

#include <fcntl.h>

#include <fstream>
#include <limits>

namespace kungfu {
namespace {

std::string PathOf(const std::string& directory, const PeerId& self) {
  return directory + "/" + std::to_string(self.port) + ".lock";
}

// The whole file.
struct flock WriteLock() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

pid_t Holder(int fd) {
  struct flock lock = WriteLock();
  const bool held = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  return held ? lock.l_pid : 0;
}

// 0: the process is not there, or the first one.
pid_t ParentOf(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; status >> word; status.ignore(std::numeric_limits<std::streamsize>::max(), '\n')) {
    pid_t parent = 0;
    if (word == "PPid:" && status >> parent) return parent;
  }
  return 0;
}

bool ComesFrom(pid_t pid, pid_t ancestor) {
  while (pid > 0 && pid != ancestor) pid = ParentOf(pid);
  return pid > 0;
}

Status TakenBy(pid_t holder, const PeerId& self) {
  const std::string peer = "peer " + self.ToString(), process = "process " + std::to_string(holder);
  if (ComesFrom(getpid(), holder)) {
    return FailedPreconditionError("this process was started by " + peer + " (" + process +
                                   ") and is none itself: only " + process + " can exchange data with other peers");
  }
  if (ComesFrom(holder, getpid())) {
    return FailedPreconditionError(process + ", which this one has started, is " + peer +
                                   " already: call kungfu_tf.init() before you start processes that exchange data");
  }
  return FailedPreconditionError(process + " is " + peer + " already: of all that kungfu-run's program starts one" +
                                 " process is the peer");
}

}  // namespace

StatusOr<UniqueFd> ClaimPlace(const std::string& directory, const PeerId& self) {
  UniqueFd fd(open(PathOf(directory, self).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  struct flock lock = WriteLock();
  if (fd.get() < 0 || fcntl(fd.get(), F_SETLK, &lock) == 0) return fd;
  const pid_t holder = Holder(fd.get());
  if (holder <= 0) return fd;  // it has just ended, or is of another container: the port will tell
  return TakenBy(holder, self);
}

Status CheckUnclaimed(const std::string& directory, const PeerId& self) {
  const UniqueFd fd(open(PathOf(directory, self).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  const pid_t holder = fd.get() < 0 ? 0 : Holder(fd.get());
  return holder <= 0 ? OkStatus() : TakenBy(holder, self);
}

}  // namespace kungfu
