#include "ops/transport/socket/unix_family.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ops/base/docs_link.h"

namespace kungfu {
namespace {

constexpr char kOneUser[] =
    ": start kungfu-run as the user that its peers run as; without kungfu-run, set KUNGFU_SOCKET_DIR to a directory of "
    "your own, or leave it out on all peers of this host if they are of several users";

Status OfAnotherUser(const std::string& message) {
  return PermissionDeniedError(Linked("another-user", message + kOneUser));
}

StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return InvalidArgumentError("unix: the path of the socket '" + path + "' has " + std::to_string(path.size()) +
                                " bytes, at most " + std::to_string(sizeof(address.sun_path) - 1) +
                                " are possible: set KUNGFU_SOCKET_DIR to a shorter directory");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

UniqueFd NewSocket() { return UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

bool Connects(int fd, const sockaddr_un& address) {
  return connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

bool Binds(int fd, const sockaddr_un& address) {
  return bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

// No process listens there any more.
bool IsStale(const sockaddr_un& address) {
  const UniqueFd probe = NewSocket();
  return !Connects(probe.get(), address) && errno == ECONNREFUSED;
}

}  // namespace

StatusOr<UniqueFd> UnixFamily::Listen(const PeerId& self) {
  const std::string path = PathOf(self);
  const StatusOr<sockaddr_un> address = AddressOf(path);
  KF_RETURN_IF_ERROR(address.status());
  KF_RETURN_IF_ERROR(CheckDirectory());
  const std::string what = "unix: cannot listen on '" + path + "' for " + self.ToString();
  UniqueFd fd = NewSocket();
  if (fd.get() < 0) return ErrnoError(errno, what);
  bool bound = Binds(fd.get(), *address);
  if (!bound && errno == EADDRINUSE) {
    if (!IsStale(*address)) {
      return FailedPreconditionError(what + ": another process listens there: end it, or choose other ports");
    }
    unlink(path.c_str());
    bound = Binds(fd.get(), *address);
  }
  if (!bound || chmod(path.c_str(), 0600) != 0 || listen(fd.get(), SOMAXCONN) != 0) return ErrnoError(errno, what);
  path_ = path;
  return fd;
}

void UnixFamily::StopListening() { unlink(path_.c_str()); }

StatusOr<UniqueFd> UnixFamily::Connect(const PeerId& remote) {
  const std::string path = PathOf(remote);
  const StatusOr<sockaddr_un> address = AddressOf(path);
  KF_RETURN_IF_ERROR(address.status());
  UniqueFd fd = NewSocket();
  if (fd.get() < 0) return UnavailableError(std::strerror(errno));
  if (!Connects(fd.get(), *address)) return UnavailableError("'" + path + "': " + std::strerror(errno));
  return fd;
}

Status UnixFamily::CheckDirectory() const {
  const std::string what = "unix: directory '" + directory_ + "'";
  if (mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST) {
    const bool may_not = errno == EACCES;
    const Status status = ErrnoError(errno, what);
    return may_not ? OfAnotherUser(status.message()) : status;
  }
  struct stat info;
  if (lstat(directory_.c_str(), &info) != 0) return ErrnoError(errno, what);
  if (!S_ISDIR(info.st_mode)) return FailedPreconditionError(what + " is not a directory");
  if (info.st_uid != geteuid()) {
    return OfAnotherUser(what + " belongs to another user");
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return FailedPreconditionError(what + " can be written to by other users: chmod 700 it, or set KUNGFU_SOCKET_DIR");
  }
  return OkStatus();
}

}  // namespace kungfu
