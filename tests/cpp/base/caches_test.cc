#include "ops/base/caches.h"

#include <fstream>
#include <set>
#include <string>

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

// Of a file; empty if there is none.
std::string FirstLine(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

// "48K", as the kernel says of each core. It says nothing on some virtual machines.
std::set<std::string> NearestCachesOfKernel() {
  std::set<std::string> sizes;
  for (int core = 0; core < 256; ++core) {
    for (int index = 0; index < 4; ++index) {
      const std::string cache =
          "/sys/devices/system/cpu/cpu" + std::to_string(core) + "/cache/index" + std::to_string(index);
      const bool is_nearest = FirstLine(cache + "/level") == "1" && FirstLine(cache + "/type") == "Data";
      if (is_nearest) sizes.insert(FirstLine(cache + "/size"));
    }
  }
  return sizes;
}

KF_TEST(Caches, TheNearestIsThatOfSomeCore) {
  const size_t kib = NearestCache() >> 10;
  EXPECT_GE(kib, size_t{8});
  const std::set<std::string> known = NearestCachesOfKernel();
  EXPECT_TRUE(known.empty() || kib == 32 || known.count(std::to_string(kib) + "K") == 1);
}

}  // namespace
}  // namespace kungfu
