#include "ops/base/copy.h"

#include <algorithm>
#include <string>

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

// What `copy` does wrong.
std::string Mistakes(CopyFunction copy) {
  static constexpr size_t kRoom = 12 << 10;
  alignas(4096) static char source[kRoom], target[kRoom];
  std::string wrong;
  for (const size_t size : {0, 1, 63, 64, 4095, 4096, 4097, 5003}) {
    for (const size_t from : {0, 1, 16, 63}) {
      for (const size_t to : {0, 4, 17, 64, 100}) {
        std::string expected(kRoom, '#');
        std::fill(target, target + kRoom, '#');
        for (size_t i = 0; i < size; ++i) expected[to + i] = source[from + i] = static_cast<char>(i * 7 + 1);
        copy(target + to, source + from, size);
        if (std::string(target, kRoom) == expected) continue;
        wrong += std::to_string(size) + " bytes from " + std::to_string(from) + " to " + std::to_string(to) + "; ";
      }
    }
  }
  return wrong;
}

KF_TEST(Copy, TakesWhatLiesAnywhere) {
  EXPECT_EQ(Mistakes(CopyBytes), "");
  EXPECT_EQ(Mistakes(CopyPastCaches), "");
}

}  // namespace
}  // namespace kungfu
