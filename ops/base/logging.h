// Lines on standard error, and checks for our own bugs.
//
//   KF_LOG(INFO) << "session of " << n << " peers";     DEBUG, INFO, WARNING, ERROR; KUNGFU_LOG_LEVEL sets the least
//   KF_CHECK(rank < size) << "rank " << rank;           ends the process: only for our own bugs
//   KF_DCHECK(loop_->InLoop());                         the same, in builds without NDEBUG

#pragma once

#include <sstream>

namespace kungfu {

enum class LogLevel : int { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3, kFatal = 4 };

// The least level that is printed; WARNING until set.
void SetLogLevel(LogLevel level);
LogLevel GetLogLevel();

class LogMessage {
 public:
  LogMessage(LogLevel level, const char* file, int line);
  ~LogMessage();  // writes the line with one write(2); ends the process if fatal
  std::ostream& stream() { return stream_; }

 private:
  const LogLevel level_;
  std::ostringstream stream_;
};

// Lower precedence than <<, higher than ?: so that a log statement is one expression.
struct LogVoidify {
  void operator&(std::ostream&) {}
};

#define KF_LOG_LEVEL_DEBUG ::kungfu::LogLevel::kDebug
#define KF_LOG_LEVEL_INFO ::kungfu::LogLevel::kInfo
#define KF_LOG_LEVEL_WARNING ::kungfu::LogLevel::kWarning
#define KF_LOG_LEVEL_ERROR ::kungfu::LogLevel::kError

#define KF_LOG(level)                              \
  (KF_LOG_LEVEL_##level < ::kungfu::GetLogLevel()) \
      ? (void)0                                    \
      : ::kungfu::LogVoidify() & ::kungfu::LogMessage(KF_LOG_LEVEL_##level, __FILE__, __LINE__).stream()

#define KF_CHECK(condition)                                                                                            \
  (condition) ? (void)0                                                                                                \
              : ::kungfu::LogVoidify() & ::kungfu::LogMessage(::kungfu::LogLevel::kFatal, __FILE__, __LINE__).stream() \
                                             << "check failed: " #condition " "

#ifdef NDEBUG
#define KF_DCHECK(condition) KF_CHECK(true || (condition))
#else
#define KF_DCHECK(condition) KF_CHECK(condition)
#endif

}  // namespace kungfu
