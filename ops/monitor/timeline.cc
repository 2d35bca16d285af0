#include "ops/monitor/timeline.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <utility>

namespace kungfu {
namespace {

constexpr size_t kBuffer = 1 << 16;
constexpr Seconds kMostDelay{1};

template <typename TimePoint>
int64_t Nanoseconds(TimePoint when) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(when.time_since_epoch()).count();
}

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) {
      quoted += c;
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", c);
      quoted += escaped;
    }
  }
  return quoted + '"';
}

}  // namespace

Timeline::Timeline(UniqueFd file, const std::string& path, int number)
    : file_(std::move(file)),
      path_(path),
      number_(number),
      to_wall_clock_(Nanoseconds(std::chrono::system_clock::now()) - Nanoseconds(Clock::now())),
      written_(Clock::now()) {}

Timeline::~Timeline() {
  if (file_.get() >= 0) static_cast<void>(Close());
}

StatusOr<std::unique_ptr<Timeline>> Timeline::Open(const std::string& path, int number, const std::string& label) {
  UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.get() < 0) return ErrnoError(errno, "timeline " + path);
  std::unique_ptr<Timeline> timeline(new Timeline(std::move(file), path, number));
  timeline->buffer_ = "[\n{\"ph\":\"M\",\"pid\":" + std::to_string(number) +
                      R"(,"name":"process_name","args":{"name":)" + Quoted(label) + "}}";
  return timeline;
}

void Timeline::Add(const std::string& name, Clock::time_point began, Clock::time_point ended, uint64_t bytes, bool ok) {
  const std::string quoted = Quoted(name);
  const std::string outcome =
      R"(,"args":{"bytes":)" + std::to_string(bytes) + ",\"ok\":" + (ok ? "true" : "false") + "}";
  Event('b', quoted, began, "");
  Event('e', quoted, ended, outcome);
  ++next_id_;
  if (buffer_.size() >= kBuffer || ended - written_ >= kMostDelay) Write();
}

// Operations overlap: as "asynchronous" events, by an identity.
void Timeline::Event(char phase, const std::string& name, Clock::time_point when, const std::string& rest) {
  const int64_t nanoseconds = Nanoseconds(when) + to_wall_clock_;
  char text[160];
  std::snprintf(text, sizeof(text), R"(,
{"ph":"%c","cat":"operation","id":%llu,"pid":%d,"tid":0,"ts":%lld.%03d,"name":)",
                phase, static_cast<unsigned long long>(next_id_), number_, static_cast<long long>(nanoseconds / 1000),
                static_cast<int>(nanoseconds % 1000));
  buffer_ += text + name + rest + "}";
}

void Timeline::Write() {
  for (size_t done = 0; status_.ok() && done < buffer_.size();) {
    const ssize_t written = write(file_.get(), buffer_.data() + done, buffer_.size() - done);
    if (written >= 0) {
      done += written;
    } else if (errno != EINTR) {
      status_ = ErrnoError(errno, "timeline " + path_);
    }
  }
  buffer_.clear();
  written_ = Clock::now();
}

Status Timeline::Close() {
  buffer_ += "\n]\n";
  Write();
  file_.Reset();
  return status_;
}

}  // namespace kungfu
