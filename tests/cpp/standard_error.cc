#include "tests/cpp/standard_error.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "tests/cpp/testing.h"

namespace kungfu::testing {

std::string StandardErrorOf(const std::function<void()>& body) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const int original = dup(STDERR_FILENO);
  const int failures = NumFailures();
  dup2(ends[1], STDERR_FILENO);
  close(ends[1]);
  body();
  dup2(original, STDERR_FILENO);  // which closes the only other end
  close(original);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;) text.append(buffer, n);
  close(ends[0]);
  if (NumFailures() != failures) std::fputs(text.c_str(), stderr);
  return text;
}

size_t TimesIn(const std::string& text, const std::string& part) {
  size_t times = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++times;
  return times;
}

}  // namespace kungfu::testing
