#include "tests/cpp/testing.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <utility>
#include <vector>

#include "ops/base/status.h"

namespace kungfu::testing {
namespace {

struct Test {
  std::string name;
  std::function<void()> body;
};

std::vector<Test>& Tests() {
  static auto* tests = new std::vector<Test>;
  return *tests;
}

std::atomic<int> failures{0};

bool Selected(const std::string& name, int argc, char** argv) {
  if (argc <= 1) return true;
  for (int i = 1; i < argc; ++i) {
    if (name.find(argv[i]) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

int Register(const char* name, std::function<void()> body) {
  Tests().push_back({name, std::move(body)});
  return 0;
}

void Fail(const char* file, int line, const std::string& message) { Fail(file, line, message.c_str()); }

void Fail(const char* file, int line, const char* message) {
  ++failures;
  std::fprintf(stderr, "%s:%d: %s\n", file, line, message);
}

void ExpectOk(const char* file, int line, const char* what, const Status& status) {
  if (!status.ok()) Fail(file, line, what + (": " + status.ToString()));
}

void ExpectContains(const char* file, int line, const std::string& text, const std::string& part) {
  if (text.find(part) == std::string::npos) Fail(file, line, "'" + text + "' does not contain '" + part + "'");
}

int NumFailures() { return failures; }

int Main(int argc, char** argv) {
  int passed = 0, failed = 0;
  for (const Test& test : Tests()) {
    if (!Selected(test.name, argc, argv)) continue;
    const int before = failures;
    const auto start = std::chrono::steady_clock::now();
    test.body();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const bool ok = failures == before;
    ++(ok ? passed : failed);
    std::printf("%s %s (%.2f s)\n", ok ? "ok    " : "FAILED", test.name.c_str(), seconds);
    std::fflush(stdout);
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed > 0 || passed == 0 ? 1 : 0;
}

}  // namespace kungfu::testing

int main(int argc, char** argv) { return kungfu::testing::Main(argc, argv); }
