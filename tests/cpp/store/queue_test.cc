// Queues from peer to peer.

#include <string>
#include <vector>

#include "ops/store/blob_store.h"
#include "tests/cpp/store/blobs.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

std::shared_ptr<Asked> Get(Cluster* cluster, int rank, int source, const std::string& queue, size_t count = 1,
                           double timeout = 0) {
  Question question(queue, count);
  question.takes = true;
  question.timeout = timeout;
  return Ask(cluster, rank, source, question);
}

void ExpectGot(const std::shared_ptr<Asked>& asked, float value) {
  EXPECT_OK(asked->Wait());
  EXPECT_TRUE(asked->values == Floats(1, value));
}

KF_TEST(Queue, ThingsComeInTheOrderInWhichTheyWerePut) {
  Cluster cluster(2);
  const auto early = Get(&cluster, 1, 0, "q");
  for (int i = 0; i < 100; ++i) {
    std::future<Status> put = PutInto(&cluster, 0, "q", static_cast<float>(i), 1000);
    EXPECT_OK(Wait(&put));
  }
  ExpectGot(early, 0);
  for (int i = 1; i < 50; ++i) ExpectGot(Get(&cluster, 1, 0, "q"), static_cast<float>(i));
  std::vector<std::shared_ptr<Asked>> asked;
  for (int i = 50; i < 100; ++i) asked.push_back(Get(&cluster, 1, 0, "q"));
  for (int i = 50; i < 100; ++i) ExpectGot(asked[i - 50], static_cast<float>(i));
}

KF_TEST(Queue, WhoPutsIntoAFullOneWaits) {
  Cluster cluster(2);
  std::future<Status> first = PutInto(&cluster, 0, "q", 1, 2), second = PutInto(&cluster, 0, "q", 2, 2);
  EXPECT_OK(Wait(&first));
  EXPECT_OK(Wait(&second));
  std::future<Status> late = PutInto(&cluster, 0, "q", 3, 2, 0.2);
  const Status full = Wait(&late);
  EXPECT_EQ(full.code(), Code::kDeadlineExceeded);
  EXPECT_CONTAINS(full.message(), "put into queue 'q' at 127.0.0.1:");
  EXPECT_CONTAINS(full.message(), ": it is full");
  std::future<Status> third = PutInto(&cluster, 0, "q", 4, 2);
  ExpectGot(Get(&cluster, 1, 0, "q"), 1);
  EXPECT_OK(Wait(&third));
  ExpectGot(Get(&cluster, 1, 0, "q"), 2);
  ExpectGot(Get(&cluster, 1, 0, "q"), 4);  // what has failed is not in it
}

KF_TEST(Queue, AnotherFormTakesNothingOut) {
  Cluster cluster(2);
  std::future<Status> put = PutInto(&cluster, 0, "q", 1);
  EXPECT_OK(Wait(&put));
  const Status status = Get(&cluster, 1, 0, "q", 2)->Wait();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_CONTAINS(status.message(), "get from queue 'q': from rank 0 (");
  EXPECT_CONTAINS(status.message(), "it is 1 float32 there");
  ExpectGot(Get(&cluster, 1, 0, "q"), 1);
}

KF_TEST(Queue, AnEmptyOneIsWaitedForUntilTheDeadline) {
  Cluster cluster(2);
  EXPECT_EQ(Get(&cluster, 1, 0, "q", 1, 0.2)->Wait().code(), Code::kDeadlineExceeded);
  std::future<Status> put = PutInto(&cluster, 0, "q", 1);
  EXPECT_OK(Wait(&put));
  ExpectGot(Get(&cluster, 1, 0, "q"), 1);  // not lost with who has given up
}

KF_TEST(Queue, OneMayServeItsOwnPeer) {
  Cluster cluster(2);
  const auto early = Get(&cluster, 0, 0, "q");
  std::future<Status> first = PutInto(&cluster, 0, "q", 1), second = PutInto(&cluster, 0, "q", 2);
  ExpectGot(early, 1);
  EXPECT_OK(Wait(&first));
  EXPECT_OK(Wait(&second));
  std::future<Status> third = PutInto(&cluster, 0, "q", 3);
  ExpectGot(Get(&cluster, 0, 0, "q"), 2);
  EXPECT_OK(Wait(&third));
}

// Of the last one nobody knows how far the peers were.
KF_TEST(Queue, ANewEpochBeginsWithEmptyOnes) {
  Cluster cluster(2);
  std::future<Status> first = PutInto(&cluster, 0, "q", 1), second = PutInto(&cluster, 0, "q", 2);
  EXPECT_OK(Wait(&first));
  const auto waiting = Get(&cluster, 1, 0, "empty");
  BeginEpoch(&cluster);
  EXPECT_EQ(Wait(&second).code(), Code::kCancelled);
  EXPECT_EQ(waiting->Wait().code(), Code::kCancelled);
  for (const float value : {3.f, 4.f}) {
    std::future<Status> put = PutInto(&cluster, 0, "q", value);
    EXPECT_OK(Wait(&put));
    ExpectGot(Get(&cluster, 1, 0, "q"), value);
  }
}

// Who goes over first, out of an epoch that was interrupted, puts nothing into the hands of who is still in it.
KF_TEST(Queue, WhatIsPutInOneEpochIsNotGotInAnother) {
  Cluster cluster(2);
  std::future<Status> connected = PutInto(&cluster, 0, "q", 0);
  EXPECT_OK(Wait(&connected));
  ExpectGot(Get(&cluster, 1, 0, "q"), 0);
  const auto go_over = [&](int rank) {
    std::promise<Status> promise;
    std::future<Status> begun = promise.get_future();
    cluster.peer(rank)->Interrupt(Status(Code::kAborted, "so it goes"));
    cluster.peer(rank)->BeginEpoch(StrategyName::kAuto, [&promise](const Status& s) { promise.set_value(s); });
    EXPECT_OK(Wait(&begun));
  };
  go_over(0);
  std::future<Status> put = PutInto(&cluster, 0, "q", 1);
  EXPECT_OK(Wait(&put));
  const Status old = Get(&cluster, 1, 0, "q")->Wait();
  EXPECT_TRUE(old.code() == Code::kAborted || old.code() == Code::kCancelled);
  go_over(1);
  ExpectGot(Get(&cluster, 1, 0, "q"), 1);
}

// A put that its thread has begun before the peer went over, and ends after it.
KF_TEST(Queue, WhatComesAfterItsEpochIsRefused) {
  BlobStore store(1);
  const auto push = [&store](uint64_t epoch) {
    return store.Push("q", epoch, *store.Copy(FormOf(1), BytesOf({1}))).status().code();
  };
  store.BeginEpoch(2);
  EXPECT_EQ(push(1), Code::kCancelled);
  EXPECT_EQ(store.Look({"q", std::nullopt, true, FormOf(1).signature()}).status().code(), Code::kNotFound);
  EXPECT_EQ(push(2), Code::kOk);
}

KF_TEST(Queue, WhatWaitsEndsWithThePeer) {
  Cluster cluster(2);
  std::future<Status> connected = PutInto(&cluster, 0, "q", 0);
  EXPECT_OK(Wait(&connected));
  ExpectGot(Get(&cluster, 1, 0, "q"), 0);
  std::future<Status> first = PutInto(&cluster, 0, "q", 1), second = PutInto(&cluster, 0, "q", 2);
  EXPECT_OK(Wait(&first));
  cluster.Stop(0);
  EXPECT_EQ(Wait(&second).code(), Code::kCancelled);
  EXPECT_EQ(Get(&cluster, 1, 0, "q")->Wait().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace kungfu::testing
