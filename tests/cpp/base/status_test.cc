#include "ops/base/status.h"

#include <cerrno>
#include <memory>

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

Status FailIfNegative(int x) { return x < 0 ? InvalidArgumentError("negative") : OkStatus(); }

Status ReturnFirstError(int a, int b) {
  KF_RETURN_IF_ERROR(FailIfNegative(a));
  KF_RETURN_IF_ERROR(FailIfNegative(b).WithContext("b"));
  return OkStatus();
}

KF_TEST(Status, SaysItsCodeAndMessage) {
  EXPECT_EQ(OkStatus().ToString(), "OK");
  EXPECT_EQ(UnavailableError("gone").ToString(), "UNAVAILABLE: gone");
  EXPECT_EQ(std::string(CodeName(Code::kAborted)), "ABORTED");
  EXPECT_EQ(std::string(CodeName(static_cast<Code>(99))), "UNKNOWN");
}

KF_TEST(Status, ContextKeepsTheCode) {
  const Status status = DeadlineExceededError("too slow").WithContext("rank 2");
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
  EXPECT_EQ(status.message(), "rank 2: too slow");
  EXPECT_TRUE(OkStatus().WithContext("rank 2").ok());
  EXPECT_EQ(OkStatus().WithContext("rank 2").message(), "");
}

KF_TEST(Status, EveryConstructorHasItsCode) {
  EXPECT_EQ(InvalidArgumentError("").code(), Code::kInvalidArgument);
  EXPECT_EQ(DeadlineExceededError("").code(), Code::kDeadlineExceeded);
  EXPECT_EQ(UnavailableError("").code(), Code::kUnavailable);
  EXPECT_EQ(CancelledError("").code(), Code::kCancelled);
  EXPECT_EQ(FailedPreconditionError("").code(), Code::kFailedPrecondition);
  EXPECT_EQ(ResourceExhaustedError("").code(), Code::kResourceExhausted);
  EXPECT_EQ(PermissionDeniedError("").code(), Code::kPermissionDenied);
  EXPECT_EQ(InternalError("").code(), Code::kInternal);
}

KF_TEST(Status, ErrnoBecomesACode) {
  EXPECT_EQ(ErrnoError(ECONNRESET, "read").ToString(), "UNAVAILABLE: read: Connection reset by peer");
  EXPECT_EQ(ErrnoError(ETIMEDOUT, "read").code(), Code::kUnavailable);
  EXPECT_EQ(ErrnoError(EMFILE, "accept").code(), Code::kResourceExhausted);
  EXPECT_EQ(ErrnoError(EADDRINUSE, "bind").code(), Code::kAlreadyExists);
  EXPECT_EQ(ErrnoError(EACCES, "bind").code(), Code::kPermissionDenied);
  EXPECT_EQ(ErrnoError(ENOENT, "open").code(), Code::kNotFound);
  EXPECT_EQ(ErrnoError(EXDEV, "rename").code(), Code::kUnknown);
}

KF_TEST(Status, ReturnIfErrorStopsAtTheFirst) {
  EXPECT_OK(ReturnFirstError(1, 2));
  EXPECT_EQ(ReturnFirstError(-1, -2).message(), "negative");
  EXPECT_EQ(ReturnFirstError(1, -2).message(), "b: negative");
}

KF_TEST(StatusOr, HoldsAValueOrAnError) {
  StatusOr<std::unique_ptr<int>> value(std::make_unique<int>(3));
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(**value, 3);
  EXPECT_OK(value.status());
  const StatusOr<int> error(UnavailableError("gone"));
  EXPECT_FALSE(error.ok());
  EXPECT_EQ(error.status().message(), "gone");
}

}  // namespace
}  // namespace kungfu
