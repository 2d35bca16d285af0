#include "ops/peer/claim.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

// Whether `holds` does so in a child of this process.
bool InChild(const std::function<bool()>& holds) {
  const pid_t child = fork();
  if (child == 0) _exit(holds() ? 0 : 1);
  int status = -1;
  return waitpid(child, &status, 0) == child && status == 0;
}

KF_TEST(Claim, OneProcessHasAPlace) {
  char directory[] = "/tmp/kungfu-test-XXXXXX";
  ASSERT_TRUE(mkdtemp(directory) != nullptr);
  const PeerId self = *PeerId::Parse("127.0.0.1:10001"), other = *PeerId::Parse("127.0.0.1:10002");
  const auto is_free = [&](const PeerId& peer) {
    const bool unclaimed = CheckUnclaimed(directory, peer).ok();
    return unclaimed && ClaimPlace(directory, peer).ok();
  };
  const std::string why = "this process was started by peer 127.0.0.1:10001 (process " + std::to_string(getpid());
  const auto is_taken = [&] {
    const Status status = CheckUnclaimed(directory, self);
    const bool known = status.code() == Code::kFailedPrecondition && status.message().find(why) == 0;
    return known && ClaimPlace(directory, self).status().message() == status.message();
  };
  {
    const StatusOr<UniqueFd> claim = ClaimPlace(directory, self);
    ASSERT_TRUE(claim.ok());
    EXPECT_TRUE(InChild(is_taken));
    EXPECT_TRUE(InChild([&] { return is_free(other); }));
  }
  EXPECT_TRUE(InChild([&] { return is_free(self); }));
  std::filesystem::remove_all(directory);
}

KF_TEST(Claim, ADirectoryThatIsNotThereIsNoObstacle) {
  const PeerId self = *PeerId::Parse("127.0.0.1:10001");
  EXPECT_TRUE(CheckUnclaimed("/nonexistent", self).ok());
  EXPECT_TRUE(ClaimPlace("/nonexistent", self).ok());
}

}  // namespace
}  // namespace kungfu::testing
