#include "ops/store/p2p.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/cpp/store/blobs.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

void ExpectBlob(const std::shared_ptr<Asked>& asked, const Floats& values, uint64_t version) {
  EXPECT_OK(asked->Wait());
  EXPECT_EQ(asked->head.version, version);
  EXPECT_TRUE(asked->values == values);
}

// That it says what, and of whom; returns the rest.
Status Error(Cluster* cluster, const std::shared_ptr<Asked>& asked, const std::string& name, int target) {
  const Status status = asked->Wait();
  EXPECT_CONTAINS(status.message(), "'" + name + "'");
  EXPECT_CONTAINS(status.message(),
                  "rank " + std::to_string(target) + " (" + cluster->session(0)->peers()[target].ToString() + ")");
  return status;
}

KF_TEST(P2p, BlobsOfAllSizesReachAllPeers) {
  for (const char* transport : {"unix", "tcp"}) {
    ClusterOptions options;
    options.transport = transport;
    Cluster cluster(3, options);
    for (const size_t count : {0, 1, 16384, 16385, 262144, 262145, Brief(3000001, 300001)}) {
      const std::string name = "of " + std::to_string(count);
      std::vector<std::shared_ptr<Asked>> asked;
      for (int target = 0; target < 3; ++target) {
        EXPECT_OK(Save(&cluster, target, name, Numbers(count, static_cast<float>(target)), target).status());
        for (int rank = 0; rank < 3; ++rank) asked.push_back(Ask(&cluster, rank, target, {name, count}));
      }
      for (int i = 0; i < 9; ++i) ExpectBlob(asked[i], Numbers(count, static_cast<float>(i / 3)), i / 3);
    }
  }
}

KF_TEST(P2p, AVersionIsTheOneThatWasAskedForOrTheNewest) {
  Cluster cluster(2);
  for (const float value : {0.f, 1.f, 2.f, 3.f}) EXPECT_OK(Save(&cluster, 1, "x", {value}).status());
  ExpectBlob(Ask(&cluster, 0, 1, {"x"}), {3}, 3);
  ExpectBlob(Ask(&cluster, 0, 1, {"x", 1, 2}), {2}, 2);
  const Status left = Error(&cluster, Ask(&cluster, 0, 1, {"x", 1, 0}), "x", 1);
  EXPECT_EQ(left.code(), Code::kOutOfRange);
  EXPECT_CONTAINS(left.message(), "version 0 has left the window: versions 1 to 3 are kept");
  EXPECT_EQ(*Save(&cluster, 1, "x", {9}, 9), 9u);
  const Status skipped = Error(&cluster, Ask(&cluster, 0, 1, {"x", 1, 5}), "x", 1);
  EXPECT_EQ(skipped.code(), Code::kOutOfRange);
  EXPECT_CONTAINS(skipped.message(), "version 5 was never saved");
  const Status late = Save(&cluster, 1, "x", {4}, 4).status();
  EXPECT_EQ(late.code(), Code::kInvalidArgument);
  EXPECT_CONTAINS(late.message(), "save of 'x': version 4 comes too late, version 9 is the newest");
}

KF_TEST(P2p, WhatIsNotThereIsWaitedForOrAnErrorAsAsked) {
  Cluster cluster(3);
  Question patient("x"), impatient("x"), limited("x"), later("x");
  impatient.waits = false;
  limited.timeout = 0.2;
  later.version = 1;
  EXPECT_EQ(Error(&cluster, Ask(&cluster, 0, 2, impatient), "x", 2).code(), Code::kNotFound);
  EXPECT_EQ(Error(&cluster, Ask(&cluster, 0, 2, limited), "x", 2).code(), Code::kDeadlineExceeded);
  const auto first = Ask(&cluster, 0, 2, patient), second = Ask(&cluster, 1, 2, later),
             own = Ask(&cluster, 2, 2, later);
  EXPECT_OK(Save(&cluster, 2, "y", {7}).status());
  EXPECT_OK(Save(&cluster, 2, "x", {5}).status());
  ExpectBlob(first, {5}, 0);
  EXPECT_OK(Save(&cluster, 2, "x", {6}).status());
  ExpectBlob(second, {6}, 1);
  ExpectBlob(own, {6}, 1);
  impatient.version = 2;
  const Status absent = Error(&cluster, Ask(&cluster, 2, 2, impatient), "x", 2);
  EXPECT_EQ(absent.code(), Code::kNotFound);
  EXPECT_CONTAINS(absent.message(), "version 2 was not saved yet, the newest is 1");
}

KF_TEST(P2p, AnotherFormIsAnErrorOfTheAsker) {
  Cluster cluster(2);
  BlobForm form = FormOf(12, 34);
  form.shapes = "[3, 4]";
  const Floats values(12);
  EXPECT_OK(cluster.peer(1)->p2p()->Save("x", 0, form, BytesOf(values), 0).status());
  Question type("x", 12), count("x", 11), shape("x", 12);
  type.dtype = DType::kInt32;
  type.shape_digest = count.shape_digest = 34;
  shape.shape_digest = 43;
  for (const int rank : {0, 1}) {
    for (const Question& wrong : {type, count, shape}) {
      const Status status = Error(&cluster, Ask(&cluster, rank, 1, wrong), "x", 1);
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_CONTAINS(status.message(), "it is float32 [3, 4] there");
    }
  }
}

KF_TEST(P2p, WhatCannotBeAskedForIsAnError) {
  Cluster cluster(2);
  for (const int nobody : {-1, 2}) {
    const Status status = Ask(&cluster, 0, nobody, {"x"})->Wait();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_CONTAINS(status.message(), "request of 'x': rank " + std::to_string(nobody) + " of 2 peers");
  }
  EXPECT_EQ(Ask(&cluster, 0, 1, {""})->Wait().code(), Code::kInvalidArgument);
  EXPECT_EQ(Ask(&cluster, 0, 1, {std::string(1025, 'x')})->Wait().code(), Code::kInvalidArgument);
  EXPECT_EQ(Save(&cluster, 0, "", {1}).status().code(), Code::kInvalidArgument);
}

KF_TEST(P2p, APullGoesOnAcrossEpochs) {
  Cluster cluster(2);
  EXPECT_OK(Save(&cluster, 0, "old", {4}).status());
  const auto waiting = Ask(&cluster, 0, 1, {"x"});
  BeginEpoch(&cluster);
  EXPECT_OK(Save(&cluster, 1, "x", {5}).status());
  ExpectBlob(waiting, {5}, 0);
  ExpectBlob(Ask(&cluster, 1, 0, {"old"}), {4}, 0);
}

// It will hardly ever be saved: nobody is left alone with it.
KF_TEST(P2p, AnInterruptionEndsWhatWaits) {
  Cluster cluster(3);
  EXPECT_OK(Save(&cluster, 2, "old", {4}).status());
  const auto others = Ask(&cluster, 0, 2, {"x"}), own = Ask(&cluster, 1, 2, {"x"}), third = Ask(&cluster, 2, 0, {"x"});
  cluster.peer(1)->Interrupt(Status(Code::kAborted, "so it goes"));
  EXPECT_EQ(own->Wait().code(), Code::kCancelled);
  EXPECT_EQ(Ask(&cluster, 1, 2, {"old"})->Wait().code(), Code::kCancelled);
  const Status waited = others->Wait(), asked = Ask(&cluster, 0, 2, {"old"})->Wait();
  for (const Status& status : {waited, asked, third->Wait()}) {
    EXPECT_EQ(status.code(), Code::kAborted);
    EXPECT_CONTAINS(status.message(), "so it goes (told by rank 1)");
  }
  BeginEpoch(&cluster);
  ExpectBlob(Ask(&cluster, 1, 2, {"old"}), {4}, 0);
  const auto again = Ask(&cluster, 0, 2, {"x"});
  EXPECT_OK(Save(&cluster, 2, "x", {5}).status());
  ExpectBlob(again, {5}, 0);
}

KF_TEST(P2p, WhatIsForgottenBeginsAnew) {
  Cluster cluster(2);
  for (const char* name : {"a/1", "a/2", "ab", "b"}) EXPECT_OK(Save(&cluster, 1, name, {1}, 7).status());
  cluster.peer(1)->p2p()->Forget("a/");
  for (const char* name : {"a/1", "a/2", "ab", "b"}) {
    Question question(name);
    question.waits = false;
    const bool is_gone = std::string(name).rfind("a/", 0) == 0;
    EXPECT_EQ(Ask(&cluster, 0, 1, question)->Wait().code(), is_gone ? Code::kNotFound : Code::kOk);
  }
  EXPECT_EQ(*Save(&cluster, 1, "a/1", {2}), 0u);
  ExpectBlob(Ask(&cluster, 0, 1, {"a/1"}), {2}, 0);
}

// Each that comes is one version whole, whatever is saved meanwhile; and collectives pass it on the way.
KF_TEST(P2p, ABlobThatIsBeingSentDoesNotChange) {
  Cluster cluster(3);
  constexpr size_t kCount = kBrief ? 1 << 19 : 2 << 20;
  EXPECT_OK(Save(&cluster, 0, "x", Floats(kCount, 0.f), std::nullopt, 1).status());
  std::atomic<bool> stop{false};
  std::thread owner([&] {
    for (int round = 1; !stop; ++round) {
      EXPECT_OK(Save(&cluster, 0, "x", Floats(kCount, static_cast<float>(round)), std::nullopt, 1).status());
    }
  });
  for (int round = 0; round < 5; ++round) {
    const auto one = Ask(&cluster, 1, 0, {"x", kCount}), two = Ask(&cluster, 2, 0, {"x", kCount});
    ExpectAllOk(cluster.Run([](int) { return MakeOperation(Kind::kBarrier, "step"); }));
    for (const auto& asked : {one, two}) {
      EXPECT_OK(asked->Wait());
      EXPECT_TRUE(asked->values == Floats(kCount, static_cast<float>(asked->head.version)));
    }
  }
  stop = true;
  owner.join();
}

KF_TEST(P2p, ARequestOfAPeerThatLeavesEnds) {
  Cluster cluster(3);
  EXPECT_OK(Save(&cluster, 1, "connected", {1}).status());
  ExpectBlob(Ask(&cluster, 0, 1, {"connected"}), {1}, 0);
  const auto waiting = Ask(&cluster, 0, 1, {"x"});
  cluster.Stop(1);
  EXPECT_EQ(Error(&cluster, waiting, "x", 1).code(), Code::kUnavailable);
  EXPECT_EQ(Error(&cluster, Ask(&cluster, 0, 1, {"x"}), "x", 1).code(), Code::kUnavailable);
  Question now("x");
  now.waits = false;
  EXPECT_EQ(Error(&cluster, Ask(&cluster, 0, 1, now), "x", 1).code(), Code::kNotFound);
  EXPECT_OK(Save(&cluster, 2, "x", {5}).status());
  ExpectBlob(Ask(&cluster, 0, 2, {"x"}), {5}, 0);
  EXPECT_EQ(Ask(&cluster, 1, 0, {"x"})->Wait().code(), Code::kCancelled);
}

// In the middle of what it is sent; whoever keeps it goes on with others.
KF_TEST(P2p, AnAskerThatLeavesIsForgotten) {
  Cluster cluster(3);
  constexpr size_t kCount = kBrief ? 2 << 20 : 8 << 20;
  const Floats values = Numbers(kCount, 1);
  EXPECT_OK(Save(&cluster, 0, "x", values).status());
  std::vector<std::shared_ptr<Asked>> asked;
  for (int i = 0; i < 8; ++i) asked.push_back(Ask(&cluster, 1, 0, {"x", kCount}));
  const auto waiting = Ask(&cluster, 1, 0, {"y"});
  cluster.Stop(1);
  for (const auto& one : asked) {
    const Status status = one->Wait();
    EXPECT_TRUE(status.ok() || status.code() == Code::kCancelled);
  }
  EXPECT_EQ(waiting->Wait().code(), Code::kCancelled);
  EXPECT_OK(Save(&cluster, 0, "y", {5}).status());
  ExpectBlob(Ask(&cluster, 2, 0, {"x", kCount}), values, 0);
}

KF_TEST(P2p, ACancelledRequestEndsAndTheNameGoesOn) {
  Cluster cluster(2);
  constexpr size_t kCount = kBrief ? 2 << 20 : 8 << 20;
  const auto remote = Ask(&cluster, 0, 1, {"x", kCount}), local = Ask(&cluster, 0, 0, {"x", kCount});
  for (const auto& asked : {remote, local}) {
    cluster.peer(0)->p2p()->Cancel(asked->handle, OkStatus());
    const Status status = asked->Wait();
    EXPECT_EQ(status.code(), Code::kCancelled);
    cluster.peer(0)->p2p()->Cancel(asked->handle, OkStatus());
  }
  const Floats values = Numbers(kCount, 1);
  EXPECT_OK(Save(&cluster, 1, "x", values).status());
  for (int round = 0; round < 10; ++round) {  // also in the middle of what comes
    const auto asked = Ask(&cluster, 0, 1, {"x", kCount});
    cluster.peer(0)->p2p()->Cancel(asked->handle, Status(Code::kAborted, "enough"));
    const Status status = asked->Wait();
    EXPECT_TRUE(status.ok() || status.code() == Code::kAborted);
  }
  ExpectBlob(Ask(&cluster, 0, 1, {"x", kCount}), values, 0);
}

KF_TEST(P2p, AnAskerMayHaveSoManyRequestsWaiting) {
  Cluster cluster(2);
  std::vector<std::shared_ptr<Asked>> asked;
  for (size_t i = 0; i <= Keeper::kMaxWaiting; ++i) asked.push_back(Ask(&cluster, 0, 1, {"x"}));
  const Status refused = Error(&cluster, asked.back(), "x", 1);
  EXPECT_EQ(refused.code(), Code::kResourceExhausted);
  asked.pop_back();
  EXPECT_OK(Save(&cluster, 1, "x", {5}).status());
  for (const auto& one : asked) ExpectBlob(one, {5}, 0);
}

KF_TEST(P2p, OneOfOneServesItself) {
  StatusOr<std::unique_ptr<Peer>> peer = Peer::Start(Config());
  ASSERT_TRUE(peer.ok());
  P2p* p2p = (*peer)->p2p();
  const Floats values{1, 2};
  EXPECT_EQ(*p2p->Save("x", std::nullopt, FormOf(2), BytesOf(values), 0), 0u);
  Floats got(2);
  const auto ask = [&](const std::string& name, bool takes) {
    Status result = InternalError("not called");
    Request request;
    request.query.name = name;
    request.query.takes = takes;
    request.query.expected = FormOf(2).signature();
    request.peers = (*peer)->session()->peers();
    request.places = {{reinterpret_cast<char*>(got.data()), got.size() * sizeof(float)}};
    request.done = [&](const Status& status, const BlobHead&) { result = status; };
    p2p->Start(std::move(request));
    return result;
  };
  const auto put = [&] {
    Status result = InternalError("not called");
    Put one;
    one.queue = "q";
    one.form = FormOf(2);
    one.bytes = BytesOf(values);
    one.done = [&](const Status& status) { result = status; };
    p2p->Start(std::move(one));
    return result;
  };
  EXPECT_OK(ask("x", false));
  EXPECT_TRUE(got == values);
  EXPECT_EQ(ask("y", false).code(), Code::kNotFound);
  EXPECT_EQ(ask("q", true).code(), Code::kNotFound);
  EXPECT_OK(put());
  EXPECT_EQ(put().code(), Code::kResourceExhausted);
  EXPECT_OK(ask("q", true));
}

}  // namespace
}  // namespace kungfu::testing
