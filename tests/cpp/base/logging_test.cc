#include "ops/base/logging.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string>

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

struct Outcome {
  std::string standard_error;
  int wait_status = 0;
};

// Runs `body` in a process of its own.
Outcome RunApart(const std::function<void()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    body();
    _exit(0);
  }
  close(ends[1]);
  Outcome outcome;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;) outcome.standard_error.append(buffer, n);
  close(ends[0]);
  waitpid(child, &outcome.wait_status, 0);
  return outcome;
}

KF_TEST(Logging, WritesALineWithItsPlace) {
  const Outcome outcome = RunApart([] { KF_LOG(WARNING) << "rank " << 3; });
  EXPECT_EQ(outcome.standard_error.substr(0, 8), "[kungfu ");
  EXPECT_CONTAINS(outcome.standard_error, " warning logging_test.cc:");
  EXPECT_CONTAINS(outcome.standard_error, "] rank 3\n");
}

KF_TEST(Logging, LevelDecidesWhatIsWrittenAndComputed) {
  const Outcome outcome = RunApart([] {
    int computed = 0;
    SetLogLevel(LogLevel::kError);
    KF_LOG(WARNING) << "a warning " << ++computed;
    SetLogLevel(LogLevel::kDebug);
    KF_LOG(DEBUG) << "computed " << computed;
  });
  EXPECT_EQ(outcome.standard_error.find("a warning"), std::string::npos);
  EXPECT_CONTAINS(outcome.standard_error, "computed 0");
}

KF_TEST(Logging, IsOneStatement) {
  bool otherwise = false;
  if (false)
    KF_LOG(ERROR) << "not written";
  else
    otherwise = true;
  EXPECT_TRUE(otherwise);
}

KF_TEST(Logging, FailedCheckEndsTheProcess) {
  const Outcome outcome = RunApart([] { KF_CHECK(1 + 1 == 3) << "rank " << 7; });
  EXPECT_TRUE(WIFSIGNALED(outcome.wait_status));
  EXPECT_EQ(WTERMSIG(outcome.wait_status), SIGABRT);
  EXPECT_CONTAINS(outcome.standard_error, "fatal");
  EXPECT_CONTAINS(outcome.standard_error, "check failed: 1 + 1 == 3 rank 7\n");
}

KF_TEST(Logging, HeldCheckComputesNoMessage) {
  int computed = 0;
  KF_CHECK(true) << ++computed;
  EXPECT_EQ(computed, 0);
}

}  // namespace
}  // namespace kungfu
