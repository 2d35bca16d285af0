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

namespace kungfu::testing {

// Under a sanitizer everything is many times slower: what shows nothing more there than without is left to the plain
// run.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

int Register(const char* name, std::function<void()> body);
// Counts a failure of the running test. Any thread.
void Fail(const char* file, int line, const std::string& message);
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

// Nothing if `holds`, else what was compared. A function, so that temporaries in the arguments outlive the comparison.
template <typename A, typename B, typename Holds>
std::string Compare(const char* what, const A& a, const B& b, Holds holds) {
  return holds(a, b) ? "" : what + (": " + Show(a)) + " and " + Show(b);
}

#define KF_EXPECT_OP(a, b, op, otherwise)                                                                  \
  do {                                                                                                     \
    const std::string kf_failure = ::kungfu::testing::Compare(                                             \
        #a " " #op " " #b, a, b, [](const auto& kf_a, const auto& kf_b) -> bool { return kf_a op kf_b; }); \
    if (!kf_failure.empty()) {                                                                             \
      ::kungfu::testing::Fail(__FILE__, __LINE__, kf_failure);                                             \
      otherwise;                                                                                           \
    }                                                                                                      \
  } while (0)
#define EXPECT_EQ(a, b) KF_EXPECT_OP(a, b, ==, (void)0)
#define EXPECT_NE(a, b) KF_EXPECT_OP(a, b, !=, (void)0)
#define EXPECT_LE(a, b) KF_EXPECT_OP(a, b, <=, (void)0)
#define EXPECT_GE(a, b) KF_EXPECT_OP(a, b, >=, (void)0)
#define ASSERT_EQ(a, b) KF_EXPECT_OP(a, b, ==, return)

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
#define EXPECT_OK(expr)                                                                                  \
  do {                                                                                                   \
    const ::kungfu::Status kf_status = (expr);                                                           \
    if (!kf_status.ok()) ::kungfu::testing::Fail(__FILE__, __LINE__, #expr ": " + kf_status.ToString()); \
  } while (0)
#define EXPECT_CONTAINS(text, part)                                                                       \
  do {                                                                                                    \
    const std::string kf_text = (text);                                                                   \
    if (kf_text.find(part) == std::string::npos)                                                          \
      ::kungfu::testing::Fail(__FILE__, __LINE__, "'" + kf_text + "' does not contain '" + (part) + "'"); \
  } while (0)

}  // namespace kungfu::testing
