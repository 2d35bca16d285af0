#include "ops/elastic/control.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <future>
#include <string>

#include "tests/cpp/testing.h"
#include "tests/cpp/transport/harness.h"

namespace kungfu::testing {
namespace {

// The runner's side of the line, as a plain blocking socket.
class FakeRunner {
 public:
  explicit FakeRunner(int backlog) {
    char directory[] = "/tmp/kungfu-test-XXXXXX";
    directory_ = mkdtemp(directory);
    path_ = directory_ + "/control";
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
        listen(listener_, backlog) != 0) {
      std::abort();
    }
  }
  ~FakeRunner() {
    HangUp();
    close(listener_);
    std::filesystem::remove_all(directory_);
  }

  void Accept() { peer_ = accept(listener_, nullptr, nullptr); }
  void Say(const std::string& text) {
    if (send(peer_, text.data(), text.size(), MSG_NOSIGNAL) < 0) Fail(__FILE__, __LINE__, "send");
  }
  // Up to the next newline.
  std::string Hear() {
    std::string line;
    char c;
    while (recv(peer_, &c, 1, 0) == 1 && c != '\n') line += c;
    return line;
  }
  void HangUp() {
    if (peer_ >= 0) close(peer_);
    peer_ = -1;
  }
  const std::string& path() const { return path_; }

 private:
  std::string directory_, path_;
  int listener_ = -1, peer_ = -1;
};

struct Fixture {
  FakeRunner runner{8};
  std::promise<std::pair<std::string, std::string>> failed;
  std::promise<std::string> left, members;
  std::promise<void> lost;
  const std::unique_ptr<EventLoop> loop = NewLoop();
  std::unique_ptr<Control> control;

  explicit Fixture(const std::string& path = "") {
    Control::Handlers handlers;
    handlers.peer_left = [this](const PeerId& peer) { left.set_value(peer.ToString()); };
    handlers.peer_failed = [this](const PeerId& peer, const std::string& text) {
      failed.set_value({peer.ToString(), text});
    };
    handlers.members = [this](const Membership& membership) {
      members.set_value(std::to_string(membership.version) + " " + std::to_string(membership.since) + " " +
                        membership.peers.ToString());
    };
    handlers.runner_lost = [this] { lost.set_value(); };
    control = std::make_unique<Control>(loop.get(), path.empty() ? runner.path() : path,
                                        *PeerId::Parse("127.0.0.1:10003"), std::move(handlers));
  }
  ~Fixture() {
    OnLoop([this] { control.reset(); });
  }

  template <typename Task>
  void OnLoop(Task task) {
    std::promise<void> done;
    loop->Post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }
  Status Open(Seconds patience = Seconds(60)) {
    Status status;
    OnLoop([&] { status = control->OpenOnLoop(patience); });
    return status;
  }
};

KF_TEST(Control, SaysHelloAndStaysAlive) {
  Fixture f;
  EXPECT_OK(f.Open());
  f.runner.Accept();
  EXPECT_EQ(f.runner.Hear(), "hello 127.0.0.1:10003 " + std::to_string(getpid()));
  EXPECT_EQ(f.runner.Hear(), "alive");
  EXPECT_EQ(f.runner.Hear(), "alive");
  f.OnLoop([&] { f.control->ReportOnLoop("all_reduce 'x'\nfrom rank 2"); });
  std::string line = f.runner.Hear();
  while (line == "alive") line = f.runner.Hear();
  EXPECT_EQ(line, "report all_reduce 'x' from rank 2");
  f.OnLoop([&] { f.control->CloseOnLoop(); });
}

KF_TEST(Control, HearsOfFailuresInPieces) {
  Fixture f;
  EXPECT_OK(f.Open());
  f.runner.Accept();
  f.runner.Say("nonsense\nfailed\nfailed x gone\nfailed 3\nfailed 127.0.0.1:99999 gone\nfailed 127.0.0.1:10002\n");
  f.runner.Say("failed 127.0.0.1:10002 killed ");
  f.runner.Say("by SIGKILL\n");
  const auto [peer, text] = f.failed.get_future().get();
  EXPECT_EQ(peer, "127.0.0.1:10002");
  EXPECT_EQ(text, "killed by SIGKILL");
  f.OnLoop([&] { f.control->CloseOnLoop(); });
}

KF_TEST(Control, HearsOfPeersThatEndedWell) {
  Fixture f;
  EXPECT_OK(f.Open());
  f.runner.Accept();
  f.runner.Say("left\nleft x\nleft 127.0.0.1:10002 gone\nleft 127.0.0.1:10002\n");
  EXPECT_EQ(f.left.get_future().get(), "127.0.0.1:10002");
  f.OnLoop([&] { f.control->CloseOnLoop(); });
}

KF_TEST(Control, HearsWhoTakesPart) {
  Fixture f;
  EXPECT_OK(f.Open());
  f.runner.Accept();
  f.runner.Say(
      "members\nmembers 1\nmembers 1 1\nmembers 1 127.0.0.1:1\nmembers x 1 127.0.0.1:1\nmembers 1 x 127.0.0.1:1\n"
      "members 1  127.0.0.1:1\nmembers 1 -1 127.0.0.1:1\nmembers 1 2 127.0.0.1:1\nmembers 99999 1 127.0.0.1:1\n"
      "members 1 1 127.0.0.1:1,127.0.0.1:1\nmembers 1 1 127.0.0.1:1 127.0.0.1:2\n");
  f.runner.Say("members 2 1 127.0.0.1:10003,127.0.0.1:10004\n");
  EXPECT_EQ(f.members.get_future().get(), "2 1 127.0.0.1:10003,127.0.0.1:10004");
  f.OnLoop([&] { f.control->CloseOnLoop(); });
}

KF_TEST(Control, HearsThatNobodyTakesPart) {
  Fixture f;
  EXPECT_OK(f.Open());
  f.runner.Accept();
  f.runner.Say("members 3 3 -\n");
  EXPECT_EQ(f.members.get_future().get(), "3 3 ");
  f.OnLoop([&] { f.control->CloseOnLoop(); });
}

KF_TEST(Control, QuestionsAreAnsweredInTheirOrder) {
  Fixture f;
  EXPECT_OK(f.Open());
  f.runner.Accept();
  std::promise<Status> answers[3];
  f.OnLoop([&] {
    for (std::promise<Status>& answer : answers) {
      const std::optional<int> size = &answer == answers ? std::nullopt : std::optional<int>(3);
      f.control->ProposeOnLoop(size, Seconds(100), [&answer](const Status& status) { answer.set_value(status); });
    }
  });
  f.runner.Say("proposed\nrefused 2 slots are all there are\n");
  EXPECT_OK(answers[0].get_future().get());
  const Status refused = answers[1].get_future().get();
  EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
  EXPECT_EQ(refused.message(), "2 slots are all there are");
  f.runner.HangUp();
  EXPECT_EQ(answers[2].get_future().get().code(), Code::kUnavailable);
  f.lost.get_future().wait();
}

// The answer to a question that nobody waits for any more is not that to the next one.
KF_TEST(Control, ARunnerThatDoesNotAnswerIsAnError) {
  Fixture f;
  EXPECT_OK(f.Open());
  f.runner.Accept();
  std::promise<Status> first, second;
  f.OnLoop([&] { f.control->ProposeOnLoop(3, Seconds(0.01), [&](const Status& status) { first.set_value(status); }); });
  const Status late = first.get_future().get();
  EXPECT_EQ(late.code(), Code::kDeadlineExceeded);
  EXPECT_CONTAINS(late.message(), "the runner has not answered");
  f.OnLoop([&] { f.control->ProposeOnLoop(4, Seconds(100), [&](const Status& status) { second.set_value(status); }); });
  f.runner.Say("proposed\nrefused no\n");
  EXPECT_EQ(second.get_future().get().message(), "no");
  f.OnLoop([&] { f.control->CloseOnLoop(); });
}

KF_TEST(Control, NoticesThatTheRunnerIsGone) {
  Fixture f;
  EXPECT_OK(f.Open());
  f.runner.Accept();
  f.runner.HangUp();
  f.lost.get_future().wait();
}

KF_TEST(Control, ALineWithoutEndIsNotBelieved) {
  Fixture f;
  EXPECT_OK(f.Open());
  f.runner.Accept();
  f.runner.Say(std::string(100000, 'x'));
  f.lost.get_future().wait();
}

// Its queue has a place for one connection, and nobody ever accepts it.
KF_TEST(Control, ARunnerThatDoesNotAcceptIsAnError) {
  FakeRunner runner(0);
  Fixture first(runner.path()), second(runner.path());
  EXPECT_OK(first.Open());
  const Status status = second.Open(Seconds(0.05));
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
  EXPECT_CONTAINS(status.message(), runner.path());
  first.OnLoop([&] { first.control->CloseOnLoop(); });
}

KF_TEST(Control, NoRunnerIsAnError) {
  Fixture f("/tmp/kungfu-no-such-socket");
  const Status status = f.Open();
  EXPECT_FALSE(status.ok());
  EXPECT_CONTAINS(status.message(), "/tmp/kungfu-no-such-socket");
}

}  // namespace
}  // namespace kungfu::testing
