#include "ops/base/status.h"

#include <cerrno>
#include <system_error>

namespace kungfu {
namespace {

Code CodeOfErrno(int error) {
  switch (error) {
    case 0:
      return Code::kInternal;  // an error that is reported has one
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case ENOTCONN:
    case ESHUTDOWN:
    case ETIMEDOUT:  // what keepalive says of a peer that is gone
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENETDOWN:
    case ENETUNREACH:
    case ENETRESET:
    case EAGAIN:
      return Code::kUnavailable;
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::kPermissionDenied;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return Code::kResourceExhausted;
    case ENOENT:
    case ENOTDIR:
    case ENXIO:
    case ENODEV:
    case ESRCH:
      return Code::kNotFound;
    case EEXIST:
    case EADDRINUSE:
      return Code::kAlreadyExists;
    case EINVAL:
    case EBADF:
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
    case ENAMETOOLONG:
    case EMSGSIZE:
    case EISDIR:
    case ELOOP:
      return Code::kInvalidArgument;
    case ENOSYS:
    case EOPNOTSUPP:
      return Code::kUnimplemented;
    case ECANCELED:
      return Code::kCancelled;
    default:
      return Code::kUnknown;
  }
}

}  // namespace

const char* CodeName(Code code) {
  switch (code) {
    case Code::kOk:
      return "OK";
    case Code::kCancelled:
      return "CANCELLED";
    case Code::kUnknown:
      return "UNKNOWN";
    case Code::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case Code::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case Code::kNotFound:
      return "NOT_FOUND";
    case Code::kAlreadyExists:
      return "ALREADY_EXISTS";
    case Code::kPermissionDenied:
      return "PERMISSION_DENIED";
    case Code::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case Code::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case Code::kAborted:
      return "ABORTED";
    case Code::kOutOfRange:
      return "OUT_OF_RANGE";
    case Code::kUnimplemented:
      return "UNIMPLEMENTED";
    case Code::kInternal:
      return "INTERNAL";
    case Code::kUnavailable:
      return "UNAVAILABLE";
  }
  return "UNKNOWN";  // a number from elsewhere that is no code
}

Status::Status(Code code, std::string message) {
  if (code != Code::kOk) error_ = std::make_shared<const Error>(Error{code, std::move(message)});
}

const std::string& Status::NoMessage() {
  static const auto* none = new std::string;
  return *none;
}

std::string Status::ToString() const {
  if (ok()) return "OK";
  return std::string(CodeName(code())) + ": " + message();
}

Status Status::WithContext(const std::string& context) const {
  if (ok()) return *this;
  return Status(code(), context + ": " + message());
}

Status InvalidArgumentError(std::string message) { return Status(Code::kInvalidArgument, std::move(message)); }
Status DeadlineExceededError(std::string message) { return Status(Code::kDeadlineExceeded, std::move(message)); }
Status UnavailableError(std::string message) { return Status(Code::kUnavailable, std::move(message)); }
Status CancelledError(std::string message) { return Status(Code::kCancelled, std::move(message)); }
Status FailedPreconditionError(std::string message) { return Status(Code::kFailedPrecondition, std::move(message)); }
Status ResourceExhaustedError(std::string message) { return Status(Code::kResourceExhausted, std::move(message)); }
Status PermissionDeniedError(std::string message) { return Status(Code::kPermissionDenied, std::move(message)); }
Status InternalError(std::string message) { return Status(Code::kInternal, std::move(message)); }

Status ErrnoError(int error, const std::string& what) {
  return Status(CodeOfErrno(error), what + ": " + std::generic_category().message(error));
}

}  // namespace kungfu
