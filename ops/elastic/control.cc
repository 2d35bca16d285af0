#include "ops/elastic/control.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "ops/base/logging.h"

namespace kungfu {
namespace {

constexpr size_t kMaxLine = 4096;
constexpr Seconds kBeat{1};
constexpr long kMaxRank = 1 << 24;

std::string OneLine(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return text;
}

}  // namespace

Control::Control(EventLoop* loop, std::string path, int rank, Handlers handlers)
    : loop_(loop), path_(std::move(path)), rank_(rank), handlers_(std::move(handlers)) {}

Control::~Control() {
  if (fd_ >= 0) close(fd_);
}

Status Control::OpenOnLoop() {
  KF_DCHECK(loop_->InLoop());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path_.size() >= sizeof(address.sun_path)) {
    return InvalidArgumentError("KUNGFU_CONTROL: path too long for a socket: " + path_);
  }
  std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
  fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd_ < 0 || connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return ErrnoError(errno, "the runner's socket " + path_);
  }
  loop_->WatchOnLoop(fd_, EPOLLIN, this);
  Send("hello " + std::to_string(rank_) + " " + std::to_string(getpid()));
  BeatOnLoop();
  return OkStatus();
}

void Control::ReportOnLoop(const std::string& text) {
  KF_DCHECK(loop_->InLoop());
  Send("report " + OneLine(text));
}

void Control::CloseOnLoop() {
  KF_DCHECK(loop_->InLoop());
  if (fd_ < 0) return;
  loop_->CancelTimerOnLoop(beat_);
  loop_->UnwatchOnLoop(fd_);
  close(std::exchange(fd_, -1));
}

void Control::BeatOnLoop() {
  KF_DCHECK(loop_->InLoop());
  if (fd_ < 0) return;
  Send("alive");
  beat_ = loop_->RunAtOnLoop(After(kBeat), [this] { BeatOnLoop(); });
}

// A runner that does not read loses lines, not the peer its time.
void Control::Send(const std::string& line) {
  if (fd_ < 0) return;
  const std::string bytes = line.substr(0, kMaxLine - 1) + "\n";
  if (send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN) LostOnLoop();
}

void Control::OnEventsOnLoop(uint32_t) {
  KF_DCHECK(loop_->InLoop());
  char buffer[kMaxLine];
  const ssize_t size = recv(fd_, buffer, sizeof(buffer), MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) return LostOnLoop();
  received_.append(buffer, size);
  size_t end;
  while ((end = received_.find('\n')) != std::string::npos) {
    const std::string line = received_.substr(0, end);
    received_.erase(0, end + 1);
    TakeLine(line);
  }
  if (received_.size() > kMaxLine) LostOnLoop();
}

void Control::TakeLine(const std::string& line) {
  constexpr char kFailed[] = "failed ";
  const char* digits = line.c_str() + std::min(line.size(), sizeof(kFailed) - 1);
  char* end = nullptr;
  const long rank = std::strtol(digits, &end, 10);
  if (line.rfind(kFailed, 0) != 0 || end == digits || *end != ' ' || rank < 0 || rank > kMaxRank) {
    KF_LOG(WARNING) << "the runner sent a line that is not understood: " << OneLine(line.substr(0, 80));
    return;
  }
  handlers_.peer_failed(static_cast<int>(rank), end + 1);
}

void Control::LostOnLoop() {
  KF_DCHECK(loop_->InLoop());
  if (fd_ < 0) return;
  CloseOnLoop();
  handlers_.runner_lost();
}

}  // namespace kungfu
