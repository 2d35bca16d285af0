// A job whose peers come and go, in one process.

#pragma once

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

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
    config.membership_version = version_;
    config.job_id = "test";
    config.secret = "a secret of the test";
    config.transport = transport;
    config.socket_dir = directory_;
    config.control = ControlPath();
    config.collective_timeout = timeout;
    config.strategy = *ParseStrategy(strategy);
    config.log_level = 3;
    config.survives = survives;
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
  std::string transport = "shm";
  bool survives = false;

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
    for (const char name : told) Tell(name, LineOf(members));
  }
  // The runner says who is left, to some of them.
  void Survive(const std::string& members, const std::string& told) {
    ++version_;
    RepeatSurvivors(members, told);
  }
  // None is lost, but all make their connections anew.
  void Renew(const std::string& members, const std::string& told) {
    ++version_;
    RepeatRenewal(members, told);
  }
  void RepeatRenewal(const std::string& members, const std::string& told) {
    for (const char name : told) Say(name, "anew " + std::to_string(version_) + "\n");
    RepeatSurvivors(members, told);
  }
  void RepeatSurvivors(const std::string& members, const std::string& told) {
    for (const char name : told) Say(name, SurvivorsLineOf(members));
  }
  std::string SurvivorsLineOf(const std::string& members) const {
    return "survivors " + std::to_string(version_) + " " + std::to_string(since_) + " " + NamesOf(members) +
           " killed by SIGKILL\n";
  }
  // In one breath: the survivors of one loss after the other.
  void SurviveAll(const std::vector<std::string>& members, char told) {
    std::string lines;
    for (const std::string& left : members) {
      ++version_;
      lines += SurvivorsLineOf(left);
    }
    Say(told, lines);
  }
  // What the newest one is announced by, if these are its members.
  std::string LineOf(const std::string& members) const {
    return "members " + std::to_string(version_) + " " + std::to_string(since_) + " " + NamesOf(members) + "\n";
  }
  // In one breath, when the peer has begun all that was asked of it; returns when it has heard.
  void Tell(char name, const std::string& lines) {
    std::promise<void> heard;
    peer(name)->Propose(1, [&heard](const Status&) { heard.set_value(); });
    HearQuestion(name);
    Say(name, lines + "proposed\n");
    heard.get_future().wait();
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

  void HearQuestion(char name, const std::string& question = "propose") {
    std::string heard;
    char c;
    while (heard.find(question) == std::string::npos && recv(lines_[name], &c, 1, 0) == 1) heard += c;
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
  // Begins an all-reduce of `value`, which `handle` (may be null) is to cancel.
  std::future<Status> AddUp(char name, const char* what, float* value, uint64_t* handle = nullptr) {
    Operation operation = MakeOperation(Kind::kAllReduce, what);
    operation.spans = {{value, value, 1}};
    auto promise = std::make_shared<std::promise<Status>>();
    operation.done = [promise](const Status& status) { promise->set_value(status); };
    const uint64_t started = peer(name)->session()->Start(std::move(operation));
    if (handle != nullptr) *handle = started;
    return promise->get_future();
  }
  // Each contributes 1. Several reduce in each other's memory.
  void ExpectSum(const std::string& names) {
    std::vector<float> values(names.size(), 1);
    std::vector<std::future<Status>> futures;
    std::vector<uint64_t> direct;
    for (const char name : names) direct.push_back(peer(name)->counters().direct());
    for (size_t i = 0; i < names.size(); ++i) futures.push_back(AddUp(names[i], "sum", &values[i]));
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
  std::string NameOf(char name) const {
    const auto starts = starts_.find(name);
    const int before = starts == starts_.end() ? 0 : starts->second;
    return "127.0.0.1:" + std::to_string(1000 + static_cast<unsigned char>(name) + 256 * before);
  }
  std::string NamesOf(const std::string& names) const {
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

}  // namespace kungfu::testing
