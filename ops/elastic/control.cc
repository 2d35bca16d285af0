#include "ops/elastic/control.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <sstream>
#include <utility>

#include "ops/base/docs_link.h"
#include "ops/base/logging.h"

namespace kungfu {
namespace {

constexpr size_t kMaxLine = 64 << 10;
constexpr Seconds kBeat{1};

std::string OneLine(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return text;
}

std::optional<uint32_t> ParseVersion(const std::string& text) {
  uint32_t version;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, version);
  if (error != std::errc() || stop != end || version > kMaxVersion) return std::nullopt;
  return version;
}

struct Announced {
  Membership membership;
  std::string text;
};

// <version> <since> <peers>, and perhaps <text>
std::optional<Announced> ParseMembership(const std::string& line) {
  std::istringstream words(line);
  std::string version_text, since_text, names, text;
  words >> version_text >> since_text >> names;
  std::getline(words >> std::ws, text);
  const std::optional<uint32_t> version = ParseVersion(version_text), since = ParseVersion(since_text);
  const StatusOr<PeerList> peers = names == "-" ? PeerList() : PeerList::Parse(names);
  if (!version || !since || *since > *version || names.empty() || !peers.ok()) return std::nullopt;
  return Announced{{*version, *peers, *since}, text};
}

timeval ToTimeval(Seconds seconds) {
  const auto us = std::chrono::ceil<std::chrono::microseconds>(seconds).count();
  return {static_cast<time_t>(us / 1000000), static_cast<suseconds_t>(us % 1000000)};
}

}  // namespace

Control::Control(EventLoop* loop, std::string path, const PeerId& self, Handlers handlers)
    : loop_(loop), path_(std::move(path)), self_(self), handlers_(std::move(handlers)) {}

Control::~Control() = default;

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
    if (errno == EAGAIN) return DeadlineExceededError(what + ": the runner accepts no connection");
    const bool may_not = errno == EACCES;
    const Status status = ErrnoError(errno, what);
    if (!may_not) return status;
    return PermissionDeniedError(
        Linked("another-user", status.message() + ": start kungfu-run as the user that its peers run as"));
  }
  fd_ = std::move(fd);
  loop_->WatchOnLoop(fd_.get(), EPOLLIN, this);
  Send("hello " + self_.ToString() + " " + std::to_string(getpid()));
  BeatOnLoop();
  return OkStatus();
}

void Control::ReportOnLoop(const std::string& text) {
  KF_DCHECK(loop_->InLoop());
  Send("report " + OneLine(text));
}

void Control::ReadyOnLoop() {
  KF_DCHECK(loop_->InLoop());
  Send("ready");
}

void Control::BegunOnLoop() {
  KF_DCHECK(loop_->InLoop());
  Send("begun");
}

void Control::EnteredOnLoop(uint32_t version) {
  KF_DCHECK(loop_->InLoop());
  Send("entered " + std::to_string(version));
}

void Control::BrokenOnLoop(uint32_t version) {
  KF_DCHECK(loop_->InLoop());
  Send("broken " + std::to_string(version));
}

void Control::ProposeOnLoop(std::optional<int> size, Seconds patience, StatusCallback answered) {
  KF_DCHECK(loop_->InLoop());
  Ask(size ? "propose " + std::to_string(*size) : "propose", patience, std::move(answered));
}

void Control::NoticeOnLoop(Seconds patience, StatusCallback answered) {
  KF_DCHECK(loop_->InLoop());
  Ask("notice", patience, std::move(answered));
}

void Control::LeaveOnLoop(Seconds patience, StatusCallback answered) {
  KF_DCHECK(loop_->InLoop());
  Ask("leave", patience, std::move(answered));
}

void Control::Ask(const std::string& line, Seconds patience, StatusCallback answered) {
  if (!Send(line)) {
    return answered(
        UnavailableError(fd_.get() < 0 ? "the runner is gone" : "the runner does not read what it is told"));
  }
  const auto question = questions_.insert(questions_.end(), {std::move(answered), {}});
  question->timer = loop_->RunAtOnLoop(After(patience), [question] {
    Answer(&*question, DeadlineExceededError("the runner has not answered within KUNGFU_COLLECTIVE_TIMEOUT"));
  });
}

void Control::CloseOnLoop() {
  KF_DCHECK(loop_->InLoop());
  if (fd_.get() < 0) return;
  loop_->CancelTimerOnLoop(beat_);
  loop_->UnwatchOnLoop(fd_.get());
  fd_.Reset();
  for (Question& question : std::exchange(questions_, {})) {
    loop_->CancelTimerOnLoop(question.timer);
    Answer(&question, UnavailableError("the runner is gone"));
  }
}

void Control::BeatOnLoop() {
  KF_DCHECK(loop_->InLoop());
  if (fd_.get() < 0) return;
  Send("alive");
  beat_ = loop_->RunAtOnLoop(After(kBeat), [this] { BeatOnLoop(); });
}

// A runner that does not read loses lines, not the peer its time.
bool Control::Send(const std::string& line) {
  if (fd_.get() < 0) return false;
  const std::string bytes = line.substr(0, kMaxLine - 1) + "\n";
  if (send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return true;
  if (errno != EAGAIN) LostOnLoop();
  return false;
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
  const size_t space = line.find(' ');
  const bool has_rest = space != std::string::npos;
  if (Understood(line.substr(0, space), has_rest ? line.substr(space + 1) : "")) return;
  KF_LOG(WARNING) << "the runner sent a line that is not understood: " << OneLine(line.substr(0, 80));
}

bool Control::Understood(const std::string& command, const std::string& rest) {
  if (command == "proposed") return Answered(OkStatus());
  if (command == "refused") return Answered(FailedPreconditionError(rest));
  if (command == "anew") {
    const std::optional<uint32_t> version = ParseVersion(rest);
    if (version) handlers_.anew(*version);
    return version.has_value();
  }
  const size_t space = std::min(rest.find(' '), rest.size());
  const std::string first = rest.substr(0, space), second = rest.substr(std::min(space + 1, rest.size()));
  if (command == "members") {
    const std::optional<Announced> members = ParseMembership(rest);
    if (!members || !members->text.empty()) return false;
    handlers_.members(members->membership);
    return true;
  }
  if (command == "survivors") {
    const std::optional<Announced> survivors = ParseMembership(rest);
    if (survivors) handlers_.survivors(survivors->membership, survivors->text);
    return survivors.has_value();
  }
  const StatusOr<PeerId> peer = PeerId::Parse(first);
  if (!peer.ok()) return false;
  if (command == "left" && second.empty()) {
    handlers_.peer_left(*peer);
  } else if (command == "failed" && !second.empty()) {
    handlers_.peer_failed(*peer, second);
  } else {
    return false;
  }
  return true;
}

bool Control::Answered(const Status& answer) {
  if (questions_.empty()) return false;
  Question question = std::move(questions_.front());
  questions_.pop_front();
  loop_->CancelTimerOnLoop(question.timer);
  Answer(&question, answer);
  return true;
}

void Control::Answer(Question* question, const Status& answer) {
  const StatusCallback answered = std::exchange(question->answered, nullptr);
  if (answered) answered(answer);
}

void Control::LostOnLoop() {
  KF_DCHECK(loop_->InLoop());
  if (fd_.get() < 0) return;
  CloseOnLoop();
  handlers_.runner_lost();
}

}  // namespace kungfu
