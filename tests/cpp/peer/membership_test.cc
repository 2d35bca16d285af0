#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ops/peer/peer.h"
#include "tests/cpp/collective/cluster.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

// The runner of a job whose peers are named by letters: it tells them who takes part.
class Job {
 public:
  Job() {
    char directory[] = "/tmp/kungfu-test-XXXXXX";
    directory_ = mkdtemp(directory);
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, ControlPath().c_str(), sizeof(address.sun_path) - 1);
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 || listen(listener_, 64) != 0) {
      std::abort();
    }
  }
  ~Job() {
    while (!peers_.empty()) Stop(peers_.begin()->first);
    close(listener_);
    std::filesystem::remove_all(directory_);
  }

  // Starts a peer: a newcomer, or one of `members` from the start.
  void Start(char name, const std::string& members = "") {
    if (members.empty()) ++starts_[name];
    Config config;
    config.self = NameOf(name);
    config.peers = members.empty() ? config.self : NamesOf(members);
    config.membership = members.empty() ? "joining" : "elastic";
    config.epoch = version_;
    config.job_id = "test";
    config.secret = "a secret of the test";
    config.transport = "shm";
    config.socket_dir = directory_;
    config.control = ControlPath();
    config.collective_timeout = timeout;
    config.strategy = strategy;
    config.log_level = 3;
    config.direct_bytes = 0;
    arenas_[name] = std::move(*Arena::Create(1 << 20));
    StatusOr<std::unique_ptr<Peer>> peer = Peer::Start(config, arenas_[name].get());
    if (!peer.ok()) Fail(__FILE__, __LINE__, peer.status().ToString());
    peers_[name] = std::move(*peer);
    lines_[name] = accept(listener_, nullptr, nullptr);
  }
  // Of peers that are started from now on.
  double timeout = 200;
  std::string strategy = "AUTO";

  void StartMembers(const std::string& members) {
    for (const char name : members) Start(name, members);
  }
  void Stop(char name) {
    peers_[name]->Shutdown();
    peers_.erase(name);
    arenas_.erase(name);
    close(lines_[name]);
    lines_.erase(name);
  }

  // The runner's end of its line.
  void HangUp(char name) { shutdown(lines_[name], SHUT_RDWR); }

  // The next membership; it is only told to some of the peers, who then know.
  void Announce(const std::string& members, const std::string& told) {
    since_ = ++version_;
    Repeat(members, told);
  }
  void Announce(const std::string& members) { Announce(members, Names()); }
  // One in place of that, which nobody has met in.
  void Replace(const std::string& members, const std::string& told) {
    ++version_;
    Repeat(members, told);
  }
  void Repeat(const std::string& members, const std::string& told) {
    for (const char name : told) {
      std::promise<void> heard;
      peer(name)->Propose(1, [&heard](const Status&) { heard.set_value(); });
      HearQuestion(name);
      Say(name, "members " + std::to_string(version_) + " " + std::to_string(since_) + " " + NamesOf(members) +
                    "\nproposed\n");
      heard.get_future().wait();
    }
  }
  void Say(char name, const std::string& line) {
    if (send(lines_[name], line.data(), line.size(), MSG_NOSIGNAL) < 0) Fail(__FILE__, __LINE__, "send");
  }

  bool WantIsProposed(char name, int size) {
    std::promise<Status> promise;
    std::future<Status> answered = promise.get_future();
    peer(name)->Want(size, [&promise](const Status& status) { promise.set_value(status); });
    const bool proposed = answered.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
    if (proposed) {
      HearQuestion(name);
      Say(name, "proposed\n");
    }
    EXPECT_OK(answered.get());
    return proposed;
  }

  void HearQuestion(char name) {
    std::string heard;
    char c;
    while (heard.find("propose") == std::string::npos && recv(lines_[name], &c, 1, 0) == 1) heard += c;
  }

  // Waits until the peer has gone over to the newest membership: it says so to its runner.
  void HearEntered(char name) {
    const std::string entered = "entered " + std::to_string(version_) + "\n";
    std::string heard;
    char c;
    while (heard.find(entered) == std::string::npos && recv(lines_[name], &c, 1, 0) == 1) heard += c;
  }

  Peer* peer(char name) { return peers_[name].get(); }
  std::string Names() const {
    std::string names;
    for (const auto& [name, peer] : peers_) names += name;
    return names;
  }

  std::future<Status> Advance(char name) {
    auto promise = std::make_shared<std::promise<Status>>();
    peer(name)->Advance([promise](const Status& status) { promise->set_value(status); });
    return promise->get_future();
  }
  void ExpectAllAdvance(const std::string& names) {
    std::vector<std::future<Status>> futures;
    for (const char name : names) futures.push_back(Advance(name));
    for (auto& future : futures) EXPECT_OK(Wait(&future));
  }
  // Each contributes 1. Several reduce in each other's memory.
  void ExpectSum(const std::string& names) {
    std::vector<float> values(names.size(), 1);
    std::vector<std::future<Status>> futures;
    std::vector<uint64_t> direct;
    for (const char name : names) direct.push_back(peer(name)->counters().direct());
    for (size_t i = 0; i < names.size(); ++i) {
      Operation operation = MakeOperation(Kind::kAllReduce, "sum");
      operation.spans = {{&values[i], &values[i], 1}};
      auto promise = std::make_shared<std::promise<Status>>();
      operation.done = [promise](const Status& status) { promise->set_value(status); };
      peer(names[i])->session()->Start(std::move(operation));
      futures.push_back(promise->get_future());
    }
    for (auto& future : futures) EXPECT_OK(Wait(&future));
    EXPECT_TRUE(values == std::vector<float>(names.size(), static_cast<float>(names.size())));
    for (size_t i = 0; i < names.size(); ++i) {
      const bool named = peer(names[i])->strategy().name != StrategyName::kAuto;
      EXPECT_EQ(peer(names[i])->counters().direct(), direct[i] + (names.size() > 1 && !named ? 1 : 0));
    }
  }

 private:
  std::string ControlPath() const { return directory_ + "/control"; }
  // No port is ever bound: the names are those of Unix sockets. Each start has one of its own.
  std::string NameOf(char name) {
    return "127.0.0.1:" + std::to_string(1000 + static_cast<unsigned char>(name) + 256 * starts_[name]);
  }
  std::string NamesOf(const std::string& names) {
    std::string text;
    for (const char name : names) text += (text.empty() ? "" : ",") + NameOf(name);
    return text;
  }

  std::string directory_;
  int listener_;
  int version_ = 0, since_ = 0;
  std::map<char, std::unique_ptr<Arena>> arenas_;
  std::map<char, std::unique_ptr<Peer>> peers_;
  std::map<char, int> lines_, starts_;
};

KF_TEST(Membership, WithoutNewsNothingChanges) {
  Job job;
  job.StartMembers("ab");
  const std::shared_ptr<Session> before = job.peer('a')->session();
  job.ExpectAllAdvance("ab");
  EXPECT_TRUE(job.peer('a')->session() == before);
  job.ExpectSum("ab");
}

KF_TEST(Membership, OneGrowsToFourAndTwoOfThemStay) {
  Job job;
  job.StartMembers("a");
  job.ExpectSum("a");
  for (const char name : std::string("bcd")) job.Start(name);
  job.ExpectSum("b");  // a newcomer is a peer of one
  job.Announce("abcd");
  job.ExpectAllAdvance("abcd");
  job.ExpectSum("abcd");
  EXPECT_EQ(VersionOf(job.peer('d')->session()->epoch()), 1u);
  job.Announce("bd");
  job.ExpectAllAdvance("abcd");
  job.ExpectSum("bd");
  EXPECT_EQ(job.peer('b')->session()->rank(), 0);
  for (const char name : std::string("ac")) {
    EXPECT_EQ(job.peer(name)->session()->rank(), -1);
    EXPECT_EQ(job.peer(name)->session()->size(), 0);
    std::future<Status> late = job.Advance(name);
    EXPECT_EQ(Wait(&late).code(), Code::kAborted);
    job.Stop(name);
  }
  job.ExpectSum("bd");
  job.ExpectAllAdvance("bd");
}

// Who has not heard of it yet waits until it has.
KF_TEST(Membership, ThatOneHasHeardOfIsThatOfAll) {
  Job job;
  job.StartMembers("abc");
  job.Announce("ab", "b");
  std::future<Status> a = job.Advance('a'), b = job.Advance('b'), c = job.Advance('c');
  job.HearEntered('b');
  job.Repeat("ab", "ac");
  for (auto* future : {&a, &b, &c}) EXPECT_OK(Wait(future));
  job.ExpectSum("ab");
  EXPECT_EQ(job.peer('c')->session()->size(), 0);
}

KF_TEST(Membership, ANewcomerThatDiesBeforeItIsTakenInIsNotMissed) {
  Job job;
  job.StartMembers("ab");
  job.Start('c');
  std::future<Status> never = job.Advance('c');
  job.Stop('c');
  EXPECT_FALSE(Wait(&never).ok());
  job.Start('d');
  job.Announce("abd");
  job.ExpectAllAdvance("abd");
  job.ExpectSum("abd");
}

// For as long as a step of theirs takes, or what they do between two.
KF_TEST(Membership, ANewcomerWaitsForTheOthersBeyondTheTimeoutOfCollectives) {
  Job job;
  job.StartMembers("ab");
  job.timeout = 0.01;
  job.Start('c');
  std::future<Status> advanced = job.Advance('c');
  EXPECT_TRUE(advanced.wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
  job.Announce("abc");
  std::future<Status> a = job.Advance('a'), b = job.Advance('b');
  for (auto* future : {&a, &b, &advanced}) EXPECT_OK(Wait(future));
}

KF_TEST(Membership, OneThatIsTakenInAndDeadIsAnErrorOfAll) {
  Job job;
  job.StartMembers("ab");
  job.Announce("abc");
  for (const char name : std::string("ab")) job.Say(name, "failed 127.0.0.1:1099 killed by SIGKILL\n");
  std::future<Status> a = job.Advance('a'), b = job.Advance('b');
  for (auto* future : {&a, &b}) {
    const Status status = Wait(future);
    EXPECT_EQ(status.code(), Code::kUnavailable);
    EXPECT_CONTAINS(status.message(), "killed by SIGKILL");
  }
}

// Who is in the new session already is told later than it sees that it cannot succeed.
KF_TEST(Membership, OneThatDiesAmongThoseThatGoOverIsAnErrorOfAll) {
  Job job;
  job.StartMembers("ab");
  job.Start('c');
  job.Announce("abc", "ab");
  std::future<Status> a = job.Advance('a'), b = job.Advance('b');
  for (const char name : std::string("ab")) job.HearEntered(name);
  job.Say('a', "failed 127.0.0.1:1355 killed by SIGKILL\n");
  Status status = Wait(&a);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_CONTAINS(status.message(), "killed by SIGKILL");
  job.Say('b', "failed 127.0.0.1:1355 killed by SIGKILL\n");
  status = Wait(&b);
  EXPECT_EQ(status.code(), Code::kUnavailable);
}

// Not only where the start of a session needs it: with a strategy that is named, and no memory shared, it need not be
// there for that.
KF_TEST(Membership, WhoHasGoneOverWaitsForTheOthersAndForTheNewcomers) {
  for (const char* const strategy : {"AUTO", "RING"}) {
    Job job;
    job.strategy = strategy;
    job.StartMembers("ab");
    job.Start('c');
    job.Announce("abc", "ab");
    std::future<Status> a = job.Advance('a'), b = job.Advance('b'), c = job.Advance('c');
    for (const char name : std::string("ab")) job.HearEntered(name);
    for (auto* future : {&a, &b}) {
      EXPECT_TRUE(future->wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
    }
    job.Repeat("abc", "c");
    for (auto* future : {&a, &b, &c}) EXPECT_OK(Wait(future));
    job.ExpectSum("abc");
  }
}

KF_TEST(Membership, ANewcomerThatDiesWhileTheOthersGoOverIsNotMissed) {
  for (const char* const strategy : {"AUTO", "RING"}) {
    Job job;
    job.strategy = strategy;
    job.StartMembers("ab");
    job.Announce("abc");  // it never comes
    std::future<Status> a = job.Advance('a'), b = job.Advance('b');
    for (const char name : std::string("ab")) job.HearEntered(name);
    job.Replace("ab", "ab");
    for (auto* future : {&a, &b}) EXPECT_OK(Wait(future));
    EXPECT_EQ(VersionOf(job.peer('a')->session()->epoch()), 2u);
    job.ExpectSum("ab");
    job.ExpectAllAdvance("ab");
  }
}

// Their connections with it end before the runner has announced another membership; and who leaves the old one tells
// those that are in it still.
KF_TEST(Membership, ANewcomerThatTheOthersSeeDieIsNotMissed) {
  for (const char* const strategy : {"AUTO", "RING"}) {
    Job job;
    job.strategy = strategy;
    job.StartMembers("ab");
    job.Start('c');
    job.Announce("abc", "ab");
    std::future<Status> a = job.Advance('a'), b = job.Advance('b');
    for (const char name : std::string("ab")) job.HearEntered(name);
    job.Stop('c');
    for (auto* future : {&a, &b}) {
      EXPECT_TRUE(future->wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
    }
    job.Replace("ab", "a");
    EXPECT_TRUE(b.wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
    job.Repeat("ab", "b");
    for (auto* future : {&a, &b}) EXPECT_OK(Wait(future));
    job.ExpectSum("ab");
  }
}

KF_TEST(Membership, WhoHearsOnlyOfTheOneThatReplacesTheOneThatWasAgreedOnGoesOverToIt) {
  Job job;
  job.StartMembers("ab");
  job.Announce("abc", "a");
  std::future<Status> a = job.Advance('a'), b = job.Advance('b');
  job.HearEntered('a');  // so they have agreed on it
  job.Replace("ab", "b");
  job.Repeat("ab", "a");
  for (auto* future : {&a, &b}) EXPECT_OK(Wait(future));
  job.ExpectSum("ab");
}

KF_TEST(Membership, NewcomersMayDieOneAfterTheOther) {
  Job job;
  job.StartMembers("ab");
  job.Announce("abcd");
  std::future<Status> a = job.Advance('a'), b = job.Advance('b');
  job.HearEntered('a');
  job.Replace("abd", "a");
  job.HearEntered('a');
  job.Replace("ab", "ab");  // b has not heard of the one before
  for (auto* future : {&a, &b}) EXPECT_OK(Wait(future));
  EXPECT_EQ(VersionOf(job.peer('b')->session()->epoch()), 3u);
  job.ExpectSum("ab");
}

KF_TEST(Membership, WhatFollowsOneThatIsMetWaitsForTheNextTime) {
  Job job;
  job.StartMembers("ab");
  job.Start('c');
  job.Announce("abc");
  std::future<Status> a = job.Advance('a'), b = job.Advance('b');
  for (const char name : std::string("ab")) job.HearEntered(name);
  std::future<Status> c = job.Advance('c');
  job.HearEntered('c');
  job.Announce("ab");
  for (auto* future : {&a, &b, &c}) EXPECT_OK(Wait(future));
  EXPECT_EQ(VersionOf(job.peer('a')->session()->epoch()), 1u);
  job.ExpectSum("abc");
  job.ExpectAllAdvance("abc");
  job.ExpectSum("ab");
}

KF_TEST(Membership, AnOrdinaryOneDoesNotReplaceTheOneBefore) {
  Job job;
  job.StartMembers("ab");
  job.Start('c');
  job.Announce("abc", "ab");
  std::future<Status> a = job.Advance('a'), b = job.Advance('b');
  for (const char name : std::string("ab")) job.HearEntered(name);
  const std::shared_ptr<Session> before = job.peer('a')->session();
  job.Announce("ab", "ab");  // which no runner does as long as it has not heard of the newcomer's entry
  EXPECT_TRUE(job.peer('a')->session() == before);
  EXPECT_TRUE(a.wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
}

KF_TEST(Membership, WhoShutsDownOrLosesItsRunnerWaitsForNobody) {
  Job job;
  job.StartMembers("ab");
  job.Announce("abc");
  std::future<Status> a = job.Advance('a'), b = job.Advance('b');
  for (const char name : std::string("ab")) job.HearEntered(name);
  job.HangUp('b');
  EXPECT_EQ(Wait(&b).code(), Code::kUnavailable);
  job.Stop('a');
  EXPECT_EQ(Wait(&a).code(), Code::kCancelled);
}

KF_TEST(Membership, StrategiesChangeInBetween) {
  Job job;
  job.StartMembers("ab");
  const auto ring = [&](const std::string& names) {
    std::vector<std::future<Status>> futures;
    for (const char name : names) {
      auto promise = std::make_shared<std::promise<Status>>();
      job.peer(name)->BeginEpoch(StrategyName::kRing, [promise](const Status& status) { promise->set_value(status); });
      futures.push_back(promise->get_future());
    }
    for (auto& future : futures) EXPECT_OK(Wait(&future));
  };
  ring("ab");
  job.Start('c');
  job.Announce("abc");
  job.ExpectAllAdvance("abc");
  ring("abc");
  job.Announce("a");
  job.ExpectAllAdvance("abc");
  ring("a");
  job.ExpectSum("a");
}

KF_TEST(Membership, OthersMeasureTheirThroughputAnew) {
  Job job;
  job.StartMembers("a");
  ThroughputMeter& meter = job.peer('a')->throughput();
  const Clock::time_point now = Clock::now();
  meter.Begin(now);
  meter.End(now + std::chrono::seconds(1), 1, 100);
  meter.EndWindow();
  job.ExpectAllAdvance("a");
  EXPECT_EQ(meter.Of(1).best, 100.0);
  job.Start('b');
  job.Announce("ab");
  job.ExpectAllAdvance("ab");
  EXPECT_EQ(meter.Of(1).best, 0.0);
}

KF_TEST(Membership, ChangesAHundredTimesAndNothingIsLeftBehind) {
  Job job;
  job.StartMembers("a");
  int descriptors = 0, threads = 0;
  for (int round = 0; round < 100; ++round) {
    const char first = static_cast<char>('b' + round % 8), second = static_cast<char>('j' + round % 8);
    job.Start(first);
    job.Start(second);
    const std::string members = {'a', first, second};
    job.Announce(members);
    job.ExpectAllAdvance(members);
    job.ExpectSum(members);
    job.Announce("a");
    job.ExpectAllAdvance(members);
    job.Stop(first);
    job.Stop(second);
    job.ExpectSum("a");
    if (round == 10) descriptors = NumEntries("/proc/self/fd"), threads = NumEntries("/proc/self/task");
  }
  EXPECT_TRUE(ComesDownTo(descriptors + 8, "/proc/self/fd"));  // of connections that are taking leave
  EXPECT_TRUE(ComesDownTo(threads, "/proc/self/task"));
}

KF_TEST(Membership, AProposalIsAnsweredByTheRunner) {
  Job job;
  job.StartMembers("a");
  std::promise<Status> answered;
  job.peer('a')->Propose(3, [&answered](const Status& status) { answered.set_value(status); });
  job.HearQuestion('a');
  job.Say('a', "refused there are 2 slots\n");
  const Status status = answered.get_future().get();
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_EQ(status.message(), "there are 2 slots");
}

KF_TEST(Membership, TheLastWishWins) {
  Job job;
  job.StartMembers("ab");
  EXPECT_TRUE(job.WantIsProposed('a', 2));  // something else may have been asked for
  EXPECT_TRUE(!job.WantIsProposed('a', 2));
  EXPECT_TRUE(job.WantIsProposed('a', 3));
  EXPECT_TRUE(job.WantIsProposed('a', 3));  // others may have asked for something else meanwhile
  EXPECT_TRUE(job.WantIsProposed('a', 2));
  EXPECT_TRUE(!job.WantIsProposed('a', 2));
  EXPECT_TRUE(!job.WantIsProposed('b', 3));  // rank 0 asks for all
}

KF_TEST(Membership, ANewcomerIsJoiningUntilItIsTakenIn) {
  Job job;
  job.StartMembers("a");
  job.Start('b');
  EXPECT_TRUE(job.peer('b')->joining() && !job.peer('a')->joining());
  job.Announce("ab");
  job.ExpectAllAdvance("ab");
  EXPECT_TRUE(!job.peer('b')->joining());
  job.ExpectSum("ab");
}

KF_TEST(Membership, WhileOperationsArePendingNobodyGoesOver) {
  Job job;
  job.StartMembers("ab");
  job.ExpectSum("ab");
  EXPECT_TRUE(!job.peer('b')->outdated());
  job.Announce("a");
  EXPECT_TRUE(job.peer('b')->outdated());
  const auto barrier = [&job](char name) {
    auto promise = std::make_shared<std::promise<Status>>();
    Operation operation = MakeOperation(Kind::kBarrier, "pending");
    operation.done = [promise](const Status& status) { promise->set_value(status); };
    job.peer(name)->session()->Start(std::move(operation));
    return promise->get_future();
  };
  const auto advance = [&job](char name) {
    auto promise = std::make_shared<std::promise<Status>>();
    job.peer(name)->AdvanceIfIdle([promise](const Status& status) { promise->set_value(status); });
    return promise->get_future();
  };
  std::future<Status> first = barrier('b');
  std::future<Status> a = advance('a'), b = advance('b');
  EXPECT_EQ(Wait(&a).code(), Code::kFailedPrecondition);
  EXPECT_EQ(Wait(&b).code(), Code::kFailedPrecondition);
  std::future<Status> second = barrier('a');
  EXPECT_OK(Wait(&first));
  EXPECT_OK(Wait(&second));
  a = advance('a');
  b = advance('b');
  EXPECT_OK(Wait(&a));
  EXPECT_OK(Wait(&b));
  EXPECT_EQ(job.peer('b')->session()->size(), 0);
}

KF_TEST(Membership, ThatDoesNotChangeKnowsNoProposal) {
  Cluster cluster(2);
  Status proposed, advanced = InternalError("not called");
  cluster.peer(0)->Propose(3, [&proposed](const Status& status) { proposed = status; });
  EXPECT_EQ(proposed.code(), Code::kFailedPrecondition);
  EXPECT_CONTAINS(proposed.message(), "kungfu-run -w");
  cluster.peer(0)->Advance([&advanced](const Status& status) { advanced = status; });
  EXPECT_OK(advanced);
}

}  // namespace
}  // namespace kungfu::testing
