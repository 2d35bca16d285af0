#include "ops/base/logging.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

namespace kungfu {
namespace {

std::atomic<LogLevel> least_level{LogLevel::kWarning};

const char* NameOf(LogLevel level) {
  static constexpr const char* kNames[] = {"debug", "info", "warning", "error", "fatal"};
  return kNames[static_cast<int>(level)];
}

const char* BaseName(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash ? slash + 1 : path;
}

// "12:34:56.789", local time
std::string TimeOfDay() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  tm local;
  localtime_r(&now.tv_sec, &local);
  char text[48];
  std::snprintf(text, sizeof(text), "%02d:%02d:%02d.%03d", local.tm_hour, local.tm_min, local.tm_sec,
                static_cast<int>(now.tv_nsec / 1000000));
  return text;
}

// A line that cannot be written is lost: there is nowhere to report it.
void WriteToStandardError(const std::string& line) {
  size_t written = 0;
  while (written < line.size()) {
    const ssize_t n = write(STDERR_FILENO, line.data() + written, line.size() - written);
    if (n > 0) {
      written += n;
    } else if (n == 0 || errno != EINTR) {
      return;
    }
  }
}

}  // namespace

void SetLogLevel(LogLevel level) { least_level.store(level, std::memory_order_relaxed); }
LogLevel GetLogLevel() { return least_level.load(std::memory_order_relaxed); }

LogMessage::LogMessage(LogLevel level, const char* file, int line) : level_(level) {
  stream_ << "[kungfu " << TimeOfDay() << " " << NameOf(level) << " " << BaseName(file) << ":" << line << "] ";
}

LogMessage::~LogMessage() {
  stream_ << '\n';
  WriteToStandardError(stream_.str());
  if (level_ == LogLevel::kFatal) std::abort();
}

}  // namespace kungfu
