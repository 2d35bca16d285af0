#include "ops/elastic/control.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <sstream>
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

timeval ToTimeval(Seconds seconds) {
  const auto us = std::chrono::ceil<std::chrono::microseconds>(seconds).count();
  return {static_cast<time_t>(us / 1000000), static_cast<suseconds_t>(us % 1000000)};
}

}  // namespace

Control::Control(EventLoop* loop, std::string path, int rank, Handlers handlers)
    : loop_(loop), path_(std::move(path)), rank_(rank), handlers_(std::move(handlers)) {}

Status Control::OpenOnLoop(Seconds patience) {
  KF_DCHECK(loop_->InLoop());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path_.size() >= sizeof(address.sun_path)) {
    return InvalidArgumentError("KUNGFU_CONTROL: path too long for a socket: " + path_);
  }
  std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
  const std::string what = "the runner's socket " + path_;
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return ErrnoError(errno, what);
  // A connect to a queue that is full waits as long as a send may.
  const timeval limit = ToTimeval(patience);
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return errno == EAGAIN ? DeadlineExceededError(what + ": the runner accepts no connection")
                           : ErrnoError(errno, what);
  }
  fd_ = std::move(fd);
  loop_->WatchOnLoop(fd_.get(), EPOLLIN, this);
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
  if (fd_.get() < 0) return;
  loop_->CancelTimerOnLoop(beat_);
  loop_->UnwatchOnLoop(fd_.get());
  fd_.Reset();
}

void Control::BeatOnLoop() {
  KF_DCHECK(loop_->InLoop());
  if (fd_.get() < 0) return;
  Send("alive");
  beat_ = loop_->RunAtOnLoop(After(kBeat), [this] { BeatOnLoop(); });
}

// A runner that does not read loses lines, not the peer its time.
void Control::Send(const std::string& line) {
  if (fd_.get() < 0) return;
  const std::string bytes = line.substr(0, kMaxLine - 1) + "\n";
  if (send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN) LostOnLoop();
}

void Control::OnEventsOnLoop(uint32_t) {
  KF_DCHECK(loop_->InLoop());
  char buffer[kMaxLine];
  const ssize_t size = recv(fd_.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
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
  std::istringstream words(line);
  std::string command;
  long rank = -1;
  words >> command >> rank;
  const bool is_rank = words && rank >= 0 && rank <= kMaxRank;
  if (is_rank && command == "left" && words.eof()) return handlers_.peer_left(static_cast<int>(rank));
  if (is_rank && command == "failed" && words.get() == ' ') {
    std::string text;
    std::getline(words, text);
    return handlers_.peer_failed(static_cast<int>(rank), text);
  }
  KF_LOG(WARNING) << "the runner sent a line that is not understood: " << OneLine(line.substr(0, 80));
}

void Control::LostOnLoop() {
  KF_DCHECK(loop_->InLoop());
  if (fd_.get() < 0) return;
  CloseOnLoop();
  handlers_.runner_lost();
}

}  // namespace kungfu
