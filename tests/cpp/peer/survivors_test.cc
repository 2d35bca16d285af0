// Jobs that lose peers and change their size. A peer that is lost lives on here, unheard.

#include <cmath>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "ops/peer/peer.h"
#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/peer/job.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

struct Dwindling : Job {
  explicit Dwindling(const std::string& members, const std::string& strategy = "AUTO") {
    survives = true;
    this->strategy = strategy;
    StartMembers(members);
  }
  std::vector<std::future<Status>> AllAdvance(const std::string& names) {
    std::vector<std::future<Status>> futures;
    for (const char name : names) futures.push_back(Advance(name));
    return futures;
  }
  // What comes of a request for a number at a rank of these peers.
  Status Ask(char name, const PeerList& peers, int target, bool waits) {
    float place = 0;
    Request request;
    request.query.name = "model";
    request.query.expected = BlobForm{DType::kFloat32, 1, 0, ""}.signature();
    request.waits = waits;
    request.peers = peers;
    request.target = target;
    request.places.push_back({reinterpret_cast<char*>(&place), sizeof(place)});
    std::promise<Status> promise;
    std::future<Status> asked = promise.get_future();
    request.done = [&promise](const Status& status, const BlobHead&) { promise.set_value(status); };
    peer(name)->p2p()->Start(std::move(request));
    return Wait(&asked);
  }
  static void ExpectOk(std::vector<std::future<Status>>* futures) {
    for (auto& future : *futures) EXPECT_OK(Wait(&future));
  }
  void ExpectAgreed(const std::string& names, uint32_t version, int size) {
    for (const char name : names) {
      EXPECT_EQ(peer(name)->place().agreed.version, version);
      EXPECT_EQ(peer(name)->place().agreed.size, size);
    }
  }

  // An all_reduce of the program's, of one number of each peer, which is 1.
  std::future<Status> Begin(char name, float* value) {
    Operation operation = MakeOperation(Kind::kAllReduce, "sum");
    operation.spans = {{value, value, 1}};
    auto promise = std::make_shared<std::promise<Status>>();
    operation.done = [promise](const Status& status) { promise->set_value(status); };
    peer(name)->StartOperation(std::move(operation));
    return promise->get_future();
  }
  // The peers begin it, some are lost, and the others have the result: all that they have done before is of one era.
  void ExpectSurvivorsToRepeat(const std::string& members, const std::string& survivors) {
    std::vector<float> values(survivors.size(), 1);
    std::vector<std::future<Status>> futures;
    for (size_t i = 0; i < survivors.size(); ++i) futures.push_back(Begin(survivors[i], &values[i]));
    Survive(survivors, members);
    ExpectOk(&futures);
    EXPECT_TRUE(values == std::vector<float>(survivors.size(), static_cast<float>(survivors.size())));
  }
};

KF_TEST(Survivors, GrowAndShrink) {
  Dwindling job("abc");
  job.Start('d');  // while the others train
  job.ExpectSurvivorsToRepeat("ab", "ab");
  job.Announce("abd");
  job.ExpectAllAdvance("abd");
  job.ExpectSum("abd");
  job.ExpectSurvivorsToRepeat("ad", "ad");
  job.Announce("d");
  job.ExpectAllAdvance("ad");
  EXPECT_EQ(job.peer('a')->session()->rank(), -1);
  job.ExpectSum("d");
}

// Who does not wait for a model goes on without that of a lost peer, whose rank there may be no more.
KF_TEST(Survivors, HaveNoMoreWhatALostOneKept) {
  Dwindling job("abc");
  const PeerList before = job.peer('a')->session()->peers();
  job.ExpectSurvivorsToRepeat("abc", "ab");
  const PeerList after = job.peer('a')->session()->peers();
  const auto ask_for_it = [&] {
    EXPECT_EQ(job.Ask('a', before, 2, false).code(), Code::kNotFound);
    EXPECT_EQ(job.Ask('a', before, 2, true).code(), Code::kUnavailable);
    EXPECT_EQ(job.Ask('a', after, 2, false).code(), Code::kNotFound);
  };
  ask_for_it();
  job.Stop('c');
  ask_for_it();
  EXPECT_EQ(job.Ask('a', after, 3, false).code(), Code::kInvalidArgument);
  EXPECT_EQ(job.Ask('a', after, 2, true).code(), Code::kInvalidArgument);
  EXPECT_EQ(job.Ask('a', after, -1, false).code(), Code::kInvalidArgument);
}

// One has connected anew, and its old connections are gone, before the others hear of it.
KF_TEST(Survivors, MakeTheirConnectionsAnew) {
  Dwindling job("abc", "STAR");
  job.ExpectSum("abc");
  for (int round = 0; round < 3; ++round) {
    std::vector<float> values(3, 1);
    std::vector<std::future<Status>> futures;
    for (const size_t i : {0, 1}) futures.push_back(job.Begin("abc"[i], &values[i]));
    job.Renew("abc", "a");
    job.HearQuestion('b', "broken " + std::to_string(round) + "\n");
    futures.push_back(job.Begin('c', &values[2]));
    job.RepeatRenewal("abc", "bc");
    Dwindling::ExpectOk(&futures);
    EXPECT_TRUE(values == std::vector<float>(3, 3));
  }
  EXPECT_EQ(job.peer('a')->session()->size(), 3);
  job.ExpectSum("abc");
  job.ExpectSurvivorsToRepeat("abc", "ab");
}

// The first call may end for some as if nobody were lost, so it must do so for all.
KF_TEST(Survivors, AgreeOnTheirListInTheSameCall) {
  Dwindling job("abc");
  std::vector<std::future<Status>> futures = job.AllAdvance("ab");
  job.Survive("ab", "ab");
  job.ExpectOk(&futures);
  job.ExpectAgreed("ab", 0, 3);
  job.ExpectAllAdvance("ab");
  job.ExpectAgreed("ab", 1, 2);
}

// They take back a change that nobody has told the newcomer of, and make it again.
KF_TEST(Survivors, ComeBackFromTheirWayToAChange) {
  Dwindling job("abc");
  job.Start('d');
  std::future<Status> d = job.Advance('d');
  job.Announce("abcd", "a");
  std::vector<std::future<Status>> futures = job.AllAdvance("abc");
  job.HearEntered('a');
  job.Survive("ab", "ab");
  futures.pop_back();
  job.ExpectOk(&futures);
  job.ExpectAgreed("ab", 1, 2);
  job.ExpectSurvivorsToRepeat("ab", "ab");  // a list like the one before
  job.Announce("abd");
  futures = job.AllAdvance("ab");
  job.ExpectOk(&futures);
  EXPECT_OK(Wait(&d));
  job.ExpectAgreed("abd", 4, 3);
  job.ExpectSum("abd");
}

// The lost peer has agreed, and not said that it knows that all have.
KF_TEST(Survivors, GoOnWithAChangeOnWhichAllHaveAgreed) {
  Dwindling job("abc");
  job.Announce("ab", "abc");
  std::vector<std::future<Status>> futures = job.AllAdvance("ab");
  Operation ask = MakeOperation(Kind::kAllReduce, "kungfu/the next membership", DType::kUint64, ReduceOp::kMax);
  std::vector<uint64_t> news = {1, 0, 0};
  ask.of_core = true;
  ask.spans = {{news.data(), news.data(), news.size()}};
  auto asked = std::make_shared<std::promise<Status>>();
  ask.done = [asked](const Status& status) { asked->set_value(status); };
  job.peer('c')->session()->Start(std::move(ask));
  std::future<Status> has_asked = asked->get_future();
  EXPECT_OK(Wait(&has_asked));
  const auto completed = [&](char name) {
    return Becomes([&] { return job.peer(name)->counters().completed("kungfu/the next membership") == 1; });
  };
  ASSERT_TRUE(completed('a') && completed('b'));
  job.Survive("ab", "ab");
  job.ExpectOk(&futures);
  job.ExpectSurvivorsToRepeat("ab", "b");
}

KF_TEST(Survivors, LeaveThoseBehindThatAreAboutToLeave) {
  Dwindling job("abc");
  job.Announce("ac", "ac");
  std::vector<std::future<Status>> futures = job.AllAdvance("abc");
  job.HearEntered('a');
  job.Survive("a", "ab");  // b has agreed to leave, and was not told of the list that it leaves for
  job.HearEntered('a');    // its call may have ended with c, before it heard of the loss
  EXPECT_OK(Wait(&futures[0]));
  EXPECT_OK(Wait(&futures[1]));
  EXPECT_EQ(job.peer('b')->session()->size(), 0);
  job.ExpectSum("a");
}

KF_TEST(Survivors, TakeInTheOtherNewcomers) {
  Dwindling job("ab");
  job.Start('c');
  job.Start('d');
  std::vector<std::future<Status>> futures = job.AllAdvance("c");
  job.Announce("abcd", "ab");
  for (auto& future : job.AllAdvance("ab")) futures.push_back(std::move(future));
  for (const char name : std::string("ab")) job.HearEntered(name);
  job.Repeat("abcd", "cd");
  job.HearEntered('c');
  job.Survive("abc", "abc");
  job.ExpectOk(&futures);
  job.ExpectAgreed("abc", 1, 3);
  job.ExpectSurvivorsToRepeat("bc", "bc");  // the newcomer, too, is in their era
  job.ExpectAllAdvance("bc");
  job.ExpectAgreed("bc", 3, 2);
}

// Keeps a peer's thread from work, from the end of what its session does now until it is destroyed.
class Pause {
 public:
  Pause(Job* job, char name) {
    Operation invalid = MakeOperation(Kind::kBroadcast, "invalid", DType::kFloat32, ReduceOp::kSum, /*root=*/9);
    invalid.done = [this, over = over_.get_future().share()](const Status&) {
      begun_.set_value();
      over.wait();
    };
    job->peer(name)->session()->Start(std::move(invalid));
  }
  ~Pause() { over_.set_value(); }

  void AwaitBegin() { begun_.get_future().wait(); }

 private:
  std::promise<void> begun_, over_;
};

// A newcomer dies when all have come to the meeting, and the root of the tree, a, knows it: the newcomer has not handed
// it on to c.
KF_TEST(Survivors, TakeTheNumberOfPeersFromThoseThatHaveMet) {
  Dwindling job("abc", "BINARY_TREE");
  job.Start('d');
  std::future<Status> d = job.Advance('d');
  job.Announce("adbc", "abd");
  std::vector<std::future<Status>> futures = job.AllAdvance("abc");
  for (const char name : std::string("abd")) job.HearEntered(name);
  auto pause = std::make_unique<Pause>(&job, 'a');
  job.Repeat("adbc", "c");
  pause->AwaitBegin();
  job.HearEntered('c');
  const auto has_handed_on = [&job] {
    std::promise<double> answered;
    job.peer('c')->session()->Ping(Seconds(0.1),
                                   [&](const std::vector<double>& seconds) { answered.set_value(seconds[1]); });
    return std::isfinite(answered.get_future().get());
  };
  ASSERT_TRUE(Becomes(has_handed_on));
  Pause newcomer(&job, 'd');
  newcomer.AwaitBegin();
  pause.reset();
  EXPECT_OK(Wait(&futures[0]));
  job.ExpectAgreed("a", 1, 4);
  job.Survive("abc", "abc");
  EXPECT_OK(Wait(&futures[1]));
  EXPECT_OK(Wait(&futures[2]));
  job.ExpectAgreed("bc", 1, 4);
  job.ExpectAllAdvance("abc");
  job.ExpectAgreed("abc", 2, 3);
}

// Some have begun the next step when it asks.
KF_TEST(Survivors, GoOnWhenAPeerLeaves) {
  Dwindling job("abc");
  job.ExpectSum("abc");
  float values[] = {1, 1};
  std::future<Status> a = job.Begin('a', &values[0]), b = job.Begin('b', &values[1]);
  std::promise<Status> promise;
  std::future<Status> left = promise.get_future();
  job.peer('c')->LeaveJob([&promise](const Status& status) { promise.set_value(status); });
  job.HearQuestion('c', "leave");
  job.Survive("ab", "abc");
  job.Say('c', "proposed\n");
  EXPECT_OK(Wait(&left));
  EXPECT_EQ(job.peer('c')->session()->size(), 0);
  EXPECT_OK(Wait(&a));
  EXPECT_OK(Wait(&b));
  EXPECT_EQ(values[0], 2);
  job.Stop('c');
  job.ExpectSum("ab");
}

// It leaves before it has met the survivors of the losses that it has heard of.
KF_TEST(Survivors, EndWhatIsBegunByOneThatHasLeft) {
  Dwindling job("abcd");
  job.Survive("abc", "a");
  job.HearEntered('a');  // it waits for the others
  job.SurviveAll({"ab", "b"}, 'a');
  job.HearEntered('a');
  EXPECT_EQ(job.peer('a')->session()->size(), 0);
  float value = 1;
  std::future<Status> sum = job.Begin('a', &value);
  EXPECT_EQ(Wait(&sum).code(), Code::kAborted);
}

KF_TEST(Survivors, DoNotGoOnWhereTheRunnerRefuses) {
  Dwindling job("ab");
  std::promise<Status> promise;
  std::future<Status> answered = promise.get_future();
  job.peer('b')->GiveNotice([&promise](const Status& status) { promise.set_value(status); });
  job.HearQuestion('b', "notice");
  job.Say('b', "refused the job is ending\n");
  const Status answer = Wait(&answered);
  EXPECT_EQ(answer.code(), Code::kFailedPrecondition);
  EXPECT_CONTAINS(answer.message(), "the job is ending");
  job.ExpectSum("ab");
}

KF_TEST(Survivors, AreFewerAndFewerOnTheWayToAChange) {
  Dwindling job("abcd");
  job.Announce("abc", "abcd");
  std::vector<std::future<Status>> futures = job.AllAdvance("bd");
  std::future<Status> a = job.Advance('a');  // c does not come
  job.Survive("abd", "abd");
  job.Survive("bd", "bd");
  job.ExpectOk(&futures);
  job.ExpectSurvivorsToRepeat("bd", "bd");
}

}  // namespace
}  // namespace kungfu::testing
