#include "ops/transport/socket/unix_family.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/cpp/testing.h"
#include "tests/cpp/transport/socket_fixture.h"

namespace kungfu {
namespace {

using testing::UnixFixture;

mode_t ModeOf(const std::string& path) {
  struct stat info;
  EXPECT_EQ(lstat(path.c_str(), &info), 0);
  return info.st_mode & 0777;
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

KF_TEST(UnixFamily, MakesAPrivateDirectoryAndRemovesItsSocket) {
  UnixFixture fixture;
  const PeerId self = fixture.NewPeer();
  const std::string directory = fixture.directory() + "/sockets";
  const std::string path = directory + "/" + std::to_string(self.port) + ".unix";
  UnixFamily family(directory);
  {
    const StatusOr<UniqueFd> listening = family.Listen(self);
    EXPECT_OK(listening.status());
    EXPECT_EQ(ModeOf(directory), mode_t{0700});
    EXPECT_EQ(ModeOf(path), mode_t{0600});
  }
  family.StopListening();
  EXPECT_FALSE(Exists(path));
  EXPECT_EQ(rmdir(directory.c_str()), 0);
}

KF_TEST(UnixFamily, RefusesADirectoryThatOthersCanWriteTo) {
  UnixFixture fixture;
  for (const mode_t mode : {0770, 0707, 0777}) {
    EXPECT_EQ(chmod(fixture.directory().c_str(), mode), 0);
    UnixFamily family(fixture.directory());
    const Status status = family.Listen(fixture.NewPeer()).status();
    EXPECT_EQ(status.code(), Code::kFailedPrecondition);
    EXPECT_CONTAINS(status.message(), fixture.directory());
  }
}

KF_TEST(UnixFamily, RefusesALinkInPlaceOfItsDirectory) {
  UnixFixture fixture;
  const std::string link = fixture.directory() + "/link";
  EXPECT_EQ(symlink(fixture.directory().c_str(), link.c_str()), 0);
  UnixFamily family(link);
  EXPECT_CONTAINS(family.Listen(fixture.NewPeer()).status().message(), "not a directory");
  EXPECT_EQ(unlink(link.c_str()), 0);
}

KF_TEST(UnixFamily, SaysThatAPathIsTooLong) {
  UnixFixture fixture;
  UnixFamily family("/tmp/" + std::string(120, 'x'));
  for (const Status& status : {family.Listen(fixture.NewPeer()).status(), family.Connect(fixture.NewPeer()).status()}) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_CONTAINS(status.message(), "at most 107");
    EXPECT_CONTAINS(status.message(), "KUNGFU_SOCKET_DIR");
  }
}

KF_TEST(UnixFamily, ReplacesTheSocketOfADeadProcess) {
  UnixFixture fixture;
  const PeerId self = fixture.NewPeer();
  UnixFamily dead(fixture.directory()), family(fixture.directory());
  EXPECT_OK(dead.Listen(self).status());  // closed at once, without StopListening
  EXPECT_TRUE(Exists(fixture.PathOf(self)));
  const StatusOr<UniqueFd> listening = family.Listen(self);
  EXPECT_OK(listening.status());
  EXPECT_OK(family.Connect(self).status());
  family.StopListening();
  EXPECT_FALSE(Exists(fixture.PathOf(self)));
}

}  // namespace
}  // namespace kungfu
