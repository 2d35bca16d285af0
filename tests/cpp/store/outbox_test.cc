// Outboxes: what is posted is added up until another peer takes it.

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ops/store/blob_store.h"
#include "tests/cpp/store/blobs.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

constexpr bool kAdds = false, kReplaces = true;

Status Post(Cluster* cluster, int rank, const std::string& outbox, const Floats& values, double weight = 0,
            bool replaces = kAdds) {
  return cluster->peer(rank)->p2p()->Post(outbox, cluster->session(rank)->epoch(), FormOf(values.size()),
                                          BytesOf(values), weight, replaces);
}

std::shared_ptr<Asked> Collect(Cluster* cluster, int rank, int source, const std::string& outbox, size_t count) {
  Question question(outbox, count);
  question.takes = true;
  question.waits = false;
  return Ask(cluster, rank, source, question);
}

void ExpectCollected(const std::shared_ptr<Asked>& asked, const Floats& values, uint64_t posts, double weight,
                     bool replaces) {
  EXPECT_OK(asked->Wait());
  EXPECT_TRUE(asked->values == values);
  EXPECT_EQ(asked->head.version, posts);
  EXPECT_EQ(asked->head.weight, weight);
  EXPECT_EQ(asked->head.replaces, replaces);
}

KF_TEST(Outbox, WhatIsPostedIsAddedUpAndTakenOnce) {
  Cluster cluster(2);
  for (const int rank : {0, 1}) {  // the peer itself may take it, too
    EXPECT_EQ(Collect(&cluster, rank, 0, "o", 3)->Wait().code(), Code::kNotFound);
    EXPECT_OK(Post(&cluster, 0, "o", {1, 2, 3}, 0.5));
    EXPECT_OK(Post(&cluster, 0, "o", {10, 20, 30}, 0.25));
    ExpectCollected(Collect(&cluster, rank, 0, "o", 3), {11, 22, 33}, 2, 0.75, kAdds);
    EXPECT_EQ(Collect(&cluster, rank, 0, "o", 3)->Wait().code(), Code::kNotFound);
  }
}

KF_TEST(Outbox, WhatReplacesStaysAloneAndIsAddedTo) {
  Cluster cluster(2);
  EXPECT_OK(Post(&cluster, 0, "o", {1, 2}, 1));
  EXPECT_OK(Post(&cluster, 0, "o", {5, 6}, 2, kReplaces));
  EXPECT_OK(Post(&cluster, 0, "o", {10, 10}, 4));
  ExpectCollected(Collect(&cluster, 1, 0, "o", 2), {15, 16}, 3, 6, kReplaces);
  EXPECT_OK(Post(&cluster, 0, "o", {7, 8}));
  ExpectCollected(Collect(&cluster, 1, 0, "o", 2), {7, 8}, 1, 0, kAdds);
}

// Larger than a part of a pull.
KF_TEST(Outbox, NothingIsLostOrTakenTwiceWhileBothAreAtWork) {
  constexpr int kPosts = 40;
  constexpr size_t kCount = 300001;
  Cluster cluster(2);
  std::thread posting([&cluster] {
    for (int i = 0; i < kPosts; ++i) EXPECT_OK(Post(&cluster, 0, "o", Floats(kCount, 1), 1));
  });
  Floats total(kCount, 0);
  double weight = 0;
  uint64_t posts = 0;
  while (posts < kPosts) {
    const auto asked = Collect(&cluster, 1, 0, "o", kCount);
    const Status status = asked->Wait();
    EXPECT_TRUE(status.ok() || status.code() == Code::kNotFound);
    if (!status.ok()) continue;
    posts += asked->head.version;
    weight += asked->head.weight;
    for (size_t i = 0; i < kCount; ++i) total[i] += asked->values[i];
  }
  posting.join();
  EXPECT_EQ(posts, uint64_t{kPosts});
  EXPECT_EQ(weight, kPosts);
  EXPECT_TRUE(total == Floats(kCount, kPosts));
}

KF_TEST(Outbox, AnotherFormIsRefusedAndChangesNothing) {
  Cluster cluster(2);
  EXPECT_OK(Post(&cluster, 0, "o", {1, 2}));
  const Status posted = Post(&cluster, 0, "o", {1, 2, 3});
  EXPECT_EQ(posted.code(), Code::kInvalidArgument);
  EXPECT_CONTAINS(posted.message(), "post into outbox 'o': what was posted before is 2 float32, and this is 3 float32");
  const Status collected = Collect(&cluster, 1, 0, "o", 4)->Wait();
  EXPECT_EQ(collected.code(), Code::kInvalidArgument);
  EXPECT_CONTAINS(collected.message(), "collect from outbox 'o': from rank 0 (");
  ExpectCollected(Collect(&cluster, 1, 0, "o", 2), {1, 2}, 1, 0, kAdds);
}

KF_TEST(Outbox, OneEndsWithItsEpoch) {
  BlobStore store(1);
  const auto post = [&store](uint64_t epoch) {
    return store.PostInto("o", epoch, *store.Copy(FormOf(1), BytesOf({1}))).code();
  };
  const auto collect = [&store](uint64_t epoch) {
    return store.Look({"o", epoch, true, FormOf(1).signature()}).status().code();
  };
  store.BeginEpoch(2);
  EXPECT_EQ(post(2), Code::kOk);
  store.BeginEpoch(3);
  EXPECT_EQ(post(2), Code::kCancelled);
  EXPECT_EQ(collect(2), Code::kCancelled);
  EXPECT_EQ(collect(3), Code::kNotFound);
}

KF_TEST(Outbox, ItIsForgottenByItsPrefix) {
  Cluster cluster(2);
  EXPECT_OK(Post(&cluster, 0, "a/o", {1}));
  EXPECT_OK(Post(&cluster, 0, "b/o", {2}));
  cluster.peer(0)->p2p()->Forget("a/");
  EXPECT_EQ(Collect(&cluster, 1, 0, "a/o", 1)->Wait().code(), Code::kNotFound);
  ExpectCollected(Collect(&cluster, 1, 0, "b/o", 1), {2}, 1, 0, kAdds);
}

// "Nothing yet" would be a wait for ever.
KF_TEST(Outbox, ThatOfAPeerThatHasLeftIsGone) {
  Cluster cluster(2);
  EXPECT_OK(Post(&cluster, 0, "o", {1}));
  ExpectCollected(Collect(&cluster, 1, 0, "o", 1), {1}, 1, 0, kAdds);
  cluster.Stop(0);
  EXPECT_EQ(Collect(&cluster, 1, 0, "o", 1)->Wait().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace kungfu::testing
