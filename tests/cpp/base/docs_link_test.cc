#include "ops/base/docs_link.h"

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

KF_TEST(DocsLink, NamesTheRowBehindTheMessage) {
  EXPECT_EQ(Linked("peer-left", "the peer has left"), "the peer has left (kungfu_tf docs: messages#peer-left)");
}

KF_TEST(DocsLink, IsThatOfTheCause) {
  const std::string cause = Linked("peer-left", "the peer has left");
  EXPECT_EQ(Linked("not-together", "not together: " + cause), "not together: " + cause);
}

}  // namespace
}  // namespace kungfu
