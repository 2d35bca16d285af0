#include "tests/cpp/transport/hostile_suite.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <random>

#include "ops/base/logging.h"
#include "ops/transport/socket/acceptor.h"
#include "tests/cpp/transport/transport_conformance.h"

namespace kungfu::testing {
namespace {

std::atomic<int> refused_accepts{0};

}  // namespace
}  // namespace kungfu::testing

// In place of the system's function, to count what it refuses.
extern "C" int accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  const long accepted = syscall(SYS_accept4, fd, address, size, flags);
  if (accepted < 0 && errno == EMFILE) ++kungfu::testing::refused_accepts;
  return static_cast<int>(accepted);
}

namespace kungfu::testing {
namespace {

// Whether the other side ends the connection, before anybody loses patience, after whatever it says.
bool IsClosedByOther(int fd) {
  char bytes[4096];
  ssize_t got;
  while ((got = recv(fd, bytes, sizeof(bytes), 0)) > 0) continue;
  return got == 0 || errno == ECONNRESET;
}

// A peer that knows the secret, and then says whatever the test likes.
UniqueFd JoinRaw(SocketFixture* fixture, const PeerId& server) {
  UniqueFd fd = fixture->ConnectRaw(server);
  const std::unique_ptr<Handshake> handshake = Handshake::Client(CredentialsOf(fixture->NewPeer()), server);
  WriteAll(fd.get(), handshake->Opening());
  while (handshake->Wants() > 0) {
    std::string reply;
    EXPECT_OK(handshake->Advance(ReadExactly(fd.get(), handshake->Wants()).data(), &reply));
    WriteAll(fd.get(), reply);
  }
  fixture->Settle(fd.get());
  return fd;
}

// A listening endpoint with a good connection, which must go on whatever is done to the endpoint.
struct Victim {
  explicit Victim(SocketFixture* fixture) : pair(fixture) {}
  ~Victim() {
    const Frame frame = NewFrame("still alive", Pattern(100000, 1));
    pair.at_a->Send(frame);
    EXPECT_TRUE(pair.at_b->AwaitFrames(1)[0].payload == frame.payload);
  }
  const PeerId& self() const { return pair.b.self(); }

  Pair pair;
};

void ExpectMayJoin(SocketFixture* fixture, const PeerId& server) {
  Endpoint peer(fixture);
  EXPECT_OK(peer.Connect(server).status());
}

void TurnsAwayWhatIsNoPeer(SocketFixture* fixture) {
  Victim victim(fixture);
  std::mt19937_64 random(1);
  std::vector<std::string> openings = {"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", std::string(1 << 16, '\0'),
                                       std::string("\xff\xff\xff\xff", 4) + std::string(1000, 'a')};
  for (int i = 0; i < 20; ++i) openings.push_back(Pattern(8 + random() % 5000, i));
  for (const std::string& opening : openings) {
    const UniqueFd fd = fixture->ConnectRaw(victim.self());
    // It may be closed before all of it is written.
    send(fd.get(), opening.data(), opening.size(), MSG_NOSIGNAL);
    EXPECT_TRUE(IsClosedByOther(fd.get()));
  }
  EXPECT_EQ(victim.pair.b.accepted(), 1u);
  ExpectMayJoin(fixture, victim.self());
}

// Every bit of a hello and of a proof counts, and none that is wrong leaves anything behind.
void TurnsAwayAForgedHandshake(SocketFixture* fixture) {
  Victim victim(fixture);
  for (size_t at = 0; at < 96; ++at) {
    const auto handshake = Handshake::Client(CredentialsOf(fixture->NewPeer()), victim.self());
    std::string hello = handshake->Opening();
    hello[at] = static_cast<char>(hello[at] ^ 1);
    const UniqueFd fd = fixture->ConnectRaw(victim.self());
    // The proof that the true secret does not make.
    send(fd.get(), hello.data(), hello.size(), MSG_NOSIGNAL);
    send(fd.get(), hello.data(), 32, MSG_NOSIGNAL);
    EXPECT_TRUE(IsClosedByOther(fd.get()));
  }
  EXPECT_EQ(victim.pair.b.accepted(), 1u);
}

void TurnsAwayATruncatedHandshake(SocketFixture* fixture) {
  Victim victim(fixture);
  const std::string hello = Handshake::Client(CredentialsOf(fixture->NewPeer()), victim.self())->Opening();
  for (const size_t size : {0, 1, 8, 95, 96}) {
    const UniqueFd fd = fixture->ConnectRaw(victim.self());
    WriteAll(fd.get(), hello.substr(0, size));
    EXPECT_EQ(shutdown(fd.get(), SHUT_WR), 0);
    EXPECT_TRUE(IsClosedByOther(fd.get()));
  }
  EXPECT_EQ(victim.pair.b.accepted(), 1u);
}

// More than may wait, all silent: the first ones make room, and who has something to say gets in at once.
void LetsPeersInPastIdleConnections(SocketFixture* fixture) {
  Victim victim(fixture);
  std::vector<UniqueFd> idle;
  for (int i = 0; i < 200; ++i) idle.push_back(fixture->ConnectRaw(victim.self()));
  ExpectMayJoin(fixture, victim.self());
  for (int i = 0; i < 136; ++i) EXPECT_TRUE(IsClosedByOther(idle[i].get()));
  // Those that said hello keep their place.
  const UniqueFd honest = fixture->ConnectRaw(victim.self());
  const auto handshake = Handshake::Client(CredentialsOf(fixture->NewPeer()), victim.self());
  WriteAll(honest.get(), handshake->Opening());
  const std::string challenge = ReadExactly(honest.get(), 64);
  for (int i = 0; i < 200; ++i) idle.push_back(fixture->ConnectRaw(victim.self()));
  ExpectMayJoin(fixture, victim.self());
  std::string proof;
  EXPECT_OK(handshake->Advance(challenge.data(), &proof));
  WriteAll(honest.get(), proof);
  EXPECT_EQ(ReadExactly(honest.get(), 4), std::string(4, '\0'));
}

// The loop goes on after the system has refused it a descriptor, and takes the connection when there is one again.
void OutlastsALackOfDescriptors(SocketFixture* fixture) {
  Victim victim(fixture);
  rlimit limit;
  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const LogLevel level = GetLogLevel();
  SetLogLevel(LogLevel::kError);
  const std::unique_ptr<Handshake> handshake = Handshake::Client(CredentialsOf(fixture->NewPeer()), victim.self());
  UniqueFd fd;
  RunOnLoop(victim.pair.b.loop(), [&] {
    fd = fixture->ConnectRaw(victim.self());
    const UniqueFd lowest_free(dup(0));
    const rlimit lowered{static_cast<rlim_t>(lowest_free.get()), limit.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &lowered), 0);
  });
  // However often the loop turns, it tries again only after a pause.
  const Clock::time_point start = Clock::now();
  refused_accepts = 0;
  for (int i = 0; i < 1000; ++i) RunOnLoop(victim.pair.b.loop(), [] {});
  const int refused = refused_accepts;
  EXPECT_LE(refused, 2 + static_cast<int>(SecondsSince(start) / Acceptor::kPause.count()));
  EXPECT_EQ(victim.pair.b.accepted(), 1u);
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  WriteAll(fd.get(), handshake->Opening());
  EXPECT_EQ(ReadExactly(fd.get(), 64).size(), 64u);
  SetLogLevel(level);
}

void ClosesWhoBreaksTheProtocol(SocketFixture* fixture) {
  Victim victim(fixture);
  std::string four_gibibytes = EncodeHeader(NewFrame("x", "").header);
  four_gibibytes[60] = 1;
  std::string long_name = EncodeHeader(NewFrame("x", "").header);
  long_name[65] = '\xff';
  std::vector<std::string> streams = {four_gibibytes, long_name, std::string(kHeaderSize, '\xff'),
                                      std::string(1 << 20, '\0'), "GET / HTTP/1.1\r\n" + std::string(100, 'x')};
  // A good frame first, so that the bad one comes in the middle of the stream.
  streams.push_back(EncodeHeader(NewFrame("good", "").header) + four_gibibytes);
  for (size_t i = 0; i < streams.size(); ++i) {
    const UniqueFd fd = JoinRaw(fixture, victim.self());
    Channel* const channel = victim.pair.b.AwaitAccepted(1 + i);
    send(fd.get(), streams[i].data(), streams[i].size(), MSG_NOSIGNAL);
    const Status why = channel->AwaitClosed();
    EXPECT_EQ(why.code(), Code::kInvalidArgument);
    EXPECT_CONTAINS(why.message(), "malformed frame");
    EXPECT_TRUE(IsClosedByOther(fd.get()));
  }
}

// Headers with random faults, with and without what they promise: no crash, and the good connection goes on.
void SurvivesMutatedFrames(SocketFixture* fixture) {
  Victim victim(fixture);
  std::mt19937_64 random(7);
  for (int round = 0; round < 100; ++round) {
    const UniqueFd fd = JoinRaw(fixture, victim.self());
    std::string stream;
    for (int i = 0; i < 5; ++i) {
      Frame frame = NewFrame(std::string(random() % 30, 'n'), Pattern(random() % 2000, i));
      frame.header.payload_size = frame.payload.size();
      std::string bytes = EncodeHeader(frame.header) + frame.payload;
      bytes[random() % bytes.size()] = static_cast<char>(random());
      stream += bytes;
    }
    send(fd.get(), stream.data(), stream.size(), MSG_NOSIGNAL);
    EXPECT_EQ(shutdown(fd.get(), SHUT_WR), 0);
    EXPECT_TRUE(IsClosedByOther(fd.get()));
    const Code code = victim.pair.b.AwaitAccepted(1 + round)->AwaitClosed().code();
    EXPECT_TRUE(code == Code::kInvalidArgument || code == Code::kUnavailable || code == Code::kCancelled);
  }
}

void TellsACrashFromAGoodbye(SocketFixture* fixture) {
  Victim victim(fixture);
  Frame frame = NewFrame("half", Pattern(1000, 1));
  frame.header.payload_size = frame.payload.size();
  FrameHeader bye;
  bye.type = FrameType::kBye;
  const std::string half = EncodeHeader(frame.header) + frame.payload.substr(0, 500);
  struct Case {
    std::string stream;
    Code code;
  };
  const Case cases[] = {{"", Code::kUnavailable},
                        {half, Code::kUnavailable},
                        {EncodeHeader(bye), Code::kCancelled},
                        {EncodeHeader(frame.header) + frame.payload + EncodeHeader(bye), Code::kCancelled}};
  size_t index = 1;
  for (const Case& c : cases) {
    const UniqueFd fd = JoinRaw(fixture, victim.self());
    Channel* const channel = victim.pair.b.AwaitAccepted(index++);
    WriteAll(fd.get(), c.stream);
    EXPECT_EQ(shutdown(fd.get(), SHUT_WR), 0);
    const Status why = channel->AwaitClosed();
    EXPECT_EQ(why.code(), c.code);
    EXPECT_CONTAINS(why.message(), "closed by");
    EXPECT_TRUE(IsClosedByOther(fd.get()));
  }
}

// A process that is killed may reset its connections.
void TellsOfAReset(SocketFixture* fixture) {
  Victim victim(fixture);
  {
    const UniqueFd fd = JoinRaw(fixture, victim.self());
    const linger reset{1, 0};
    EXPECT_EQ(setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
    victim.pair.b.AwaitAccepted(1);
  }
  EXPECT_EQ(victim.pair.b.AwaitAccepted(1)->AwaitClosed().code(), Code::kUnavailable);
}

}  // namespace

bool AddHostileTests(const std::string& suite, const std::function<std::unique_ptr<SocketFixture>()>& factory) {
  KF_TRANSPORT_CASE(suite, factory, TurnsAwayWhatIsNoPeer);
  KF_TRANSPORT_CASE(suite, factory, TurnsAwayAForgedHandshake);
  KF_TRANSPORT_CASE(suite, factory, TurnsAwayATruncatedHandshake);
  KF_TRANSPORT_CASE(suite, factory, LetsPeersInPastIdleConnections);
  KF_TRANSPORT_CASE(suite, factory, OutlastsALackOfDescriptors);
  KF_TRANSPORT_CASE(suite, factory, ClosesWhoBreaksTheProtocol);
  KF_TRANSPORT_CASE(suite, factory, SurvivesMutatedFrames);
  KF_TRANSPORT_CASE(suite, factory, TellsACrashFromAGoodbye);
  KF_TRANSPORT_CASE(suite, factory, TellsOfAReset);
  return true;
}

}  // namespace kungfu::testing
