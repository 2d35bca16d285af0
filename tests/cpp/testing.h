// A test harness of one header, so that the tests need nothing but a compiler.
//
//   KF_TEST(PeerId, ParsesIpv6) { EXPECT_EQ(PeerId::Parse("[::1]:7")->port, 7); }
//
// EXPECT_* report and go on; ASSERT_* return from the function. A binary runs the tests whose "Suite.Name" contains
// one of its arguments (all without arguments), prints a line each and a summary, and exits with 1 if any failed.

#pragma once

#include <functional>
#include <sstream>
#include <string>

namespace kungfu {
class Status;
}

namespace kungfu::testing {

// Under a sanitizer everything is many times slower: what shows nothing more there than without is left to the plain
// run.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Whether another processor is emulated, with calls of the system that leave something out.
#ifdef KUNGFU_EMULATED
constexpr bool kEmulated = true;
#else
constexpr bool kEmulated = false;
#endif

// Whether some sizes stand for the others, which the plain run has, and with a sanitizer `make test-all`.
#ifdef KUNGFU_ALL_TESTS
constexpr bool kBrief = false;
#else
constexpr bool kBrief = kSanitized;
#endif

// `all`, or `some` of it where the run is brief.
template <typename T>
constexpr T Brief(T all, T some) {
  return kBrief ? some : all;
}

int Register(const char* name, std::function<void()> body);
// Counts a failure of the running test. Any thread.
void Fail(const char* file, int line, const std::string& message);
void Fail(const char* file, int line, const char* message);
// Of this process, so far.
int NumFailures();

template <typename T>
std::string Show(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return std::to_string(static_cast<long long>(value));
  } else {
    std::ostringstream out;
    out << value;
    return out.str();
  }
}

#define KF_TEST(suite, name)                                                                                    \
  static void suite##_##name();                                                                                 \
  static const int suite##_##name##_registered = ::kungfu::testing::Register(#suite "." #name, suite##_##name); \
  static void suite##_##name()

// Hundreds of lines compare: what each does is a call, or compiling them would take most of the time of the tests.
template <typename Holds, typename A, typename B>
bool Compare(const char* file, int line, const char* what, const A& a, const B& b) {
  if (Holds()(a, b)) return true;
  Fail(file, line, what + (": " + Show(a)) + " and " + Show(b));
  return false;
}
void ExpectOk(const char* file, int line, const char* what, const Status& status);
void ExpectContains(const char* file, int line, const std::string& text, const std::string& part);

#define KF_EXPECT_OP(holds, a, op, b, otherwise)                                           \
  do {                                                                                     \
    if (!::kungfu::testing::Compare<holds>(__FILE__, __LINE__, #a " " #op " " #b, a, b)) { \
      otherwise;                                                                           \
    }                                                                                      \
  } while (0)
#define EXPECT_EQ(a, b) KF_EXPECT_OP(std::equal_to<>, a, ==, b, (void)0)
#define EXPECT_NE(a, b) KF_EXPECT_OP(std::not_equal_to<>, a, !=, b, (void)0)
#define EXPECT_LE(a, b) KF_EXPECT_OP(std::less_equal<>, a, <=, b, (void)0)
#define EXPECT_GE(a, b) KF_EXPECT_OP(std::greater_equal<>, a, >=, b, (void)0)
#define ASSERT_EQ(a, b) KF_EXPECT_OP(std::equal_to<>, a, ==, b, return)

#define KF_EXPECT(condition, otherwise)                                     \
  do {                                                                      \
    if (!(condition)) {                                                     \
      ::kungfu::testing::Fail(__FILE__, __LINE__, "expected: " #condition); \
      otherwise;                                                            \
    }                                                                       \
  } while (0)
#define EXPECT_TRUE(condition) KF_EXPECT(condition, (void)0)
#define EXPECT_FALSE(condition) KF_EXPECT(!(condition), (void)0)
#define ASSERT_TRUE(condition) KF_EXPECT(condition, return)
// `expr` is a Status.
#define EXPECT_OK(expr) ::kungfu::testing::ExpectOk(__FILE__, __LINE__, #expr, expr)
#define EXPECT_CONTAINS(text, part) ::kungfu::testing::ExpectContains(__FILE__, __LINE__, text, part)

}  // namespace kungfu::testing
