// The outcome of an action that can fail. No exceptions cross a function of the core.

#pragma once

#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace kungfu {

// The canonical codes, with TensorFlow's numbers.
enum class Code : int {
  kOk = 0,
  kCancelled = 1,  // we closed, or the caller gave up
  kUnknown = 2,
  kInvalidArgument = 3,   // the request of the caller, or of another peer, cannot be met
  kDeadlineExceeded = 4,  // too slow
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,   // the handshake failed, or the system forbids it
  kResourceExhausted = 8,  // a bound was reached
  kFailedPrecondition = 9,
  kAborted = 10,  // the membership changed: retry in the new session
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,     // a bug of ours
  kUnavailable = 14,  // the peer is gone
};

const char* CodeName(Code code);

// OK costs no more than a null pointer. A message goes with an error only.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message);
  // No moves: an error stays one for whoever looks again.
  Status(const Status&) = default;
  Status& operator=(const Status&) = default;

  bool ok() const { return !error_; }
  Code code() const { return ok() ? Code::kOk : error_->code; }
  const std::string& message() const { return ok() ? NoMessage() : error_->message; }

  // "UNAVAILABLE: all_reduce 'conv1' from rank 2 (…): connection reset by peer"
  std::string ToString() const;

  // The same code, with `context` and ": " before the message. OK stays OK.
  Status WithContext(const std::string& context) const;

 private:
  struct Error {
    Code code;
    std::string message;
  };

  static const std::string& NoMessage();

  std::shared_ptr<const Error> error_;  // null: OK
};

inline Status OkStatus() { return Status(); }
Status InvalidArgumentError(std::string message);
Status DeadlineExceededError(std::string message);
Status UnavailableError(std::string message);
Status CancelledError(std::string message);
Status FailedPreconditionError(std::string message);
Status ResourceExhaustedError(std::string message);
Status PermissionDeniedError(std::string message);
Status InternalError(std::string message);
// `what`: strerror(error), with the code that fits a socket's or file's errno.
Status ErrnoError(int error, const std::string& what);

// A value, or why there is none.
template <typename T>
class [[nodiscard]] StatusOr {
 public:
  StatusOr(T value) : value_(std::move(value)) {}         // NOLINT: implicit by design
  StatusOr(Status status) : status_(std::move(status)) {  // NOLINT: implicit by design
    if (status_.ok()) std::abort();
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  // REQUIRES: ok()
  T& value() { return *value_; }
  const T& value() const { return *value_; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

// Called exactly once, never under a lock, and never inside the call that registered it unless that says so.
using StatusCallback = std::function<void(const Status&)>;

#define KF_RETURN_IF_ERROR(expr)             \
  do {                                       \
    ::kungfu::Status kf_status_ = (expr);    \
    if (!kf_status_.ok()) return kf_status_; \
  } while (0)

}  // namespace kungfu
