// What the shared-memory transport does beyond the suites: without shared memory, and with a peer that abuses it.

#include "ops/transport/shm/shm_transport.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "ops/transport/shm/ring_pipe.h"
#include "ops/transport/shm/segment.h"
#include "ops/transport/socket/unix_family.h"
#include "tests/cpp/standard_error.h"
#include "tests/cpp/transport/socket_fixture.h"
#include "tests/cpp/transport/transport_conformance.h"

namespace kungfu::testing {
namespace {

class RequiredShmFixture : public ShmFixture {
 public:
  std::unique_ptr<Transport> NewTransport(EventLoop* loop, const Credentials& credentials) override {
    return MakeShmTransport(loop, directory(), AddressFamilies(), credentials, /*required=*/true);
  }
};

// No process of this user may make a file, thus no memory, of more than a page.
class WithoutMemory {
 public:
  WithoutMemory() {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &limit_), 0);
    const rlimit lowered{4096, limit_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &lowered), 0);
  }
  ~WithoutMemory() { EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit_), 0); }

 private:
  rlimit limit_;
};

KF_TEST(ShmTransport, TakesTheSocketWithoutMemory) {
  ShmFixture fixture;
  const WithoutMemory without_memory;
  const std::string said = StandardErrorOf([&fixture] {
    Pair pair(&fixture);
    const Frame frame = NewFrame("over the socket", Pattern(1000000, 1));
    pair.at_a->Send(frame);
    pair.at_b->Send(frame);
    ExpectFrames(pair.at_b->AwaitFrames(1), {frame});
    ExpectFrames(pair.at_a->AwaitFrames(1), {frame});
    RunOnLoop(pair.a.loop(), [&] { EXPECT_EQ(std::string(pair.at_a->connection->transport_name()), "unix"); });
  });
  EXPECT_EQ(TimesIn(said, "warning"), 2u);  // of either side
  EXPECT_EQ(TimesIn(said, "the other peer has none to offer; Unix sockets are used"), 1u);
}

// However many others there are.
KF_TEST(ShmTransport, SaysOnceThatThereIsNoMemory) {
  ShmFixture fixture;
  const WithoutMemory without_memory;
  Endpoint a(&fixture), b(&fixture), c(&fixture);
  EXPECT_OK(b.Listen());
  EXPECT_OK(c.Listen());
  const std::string said = StandardErrorOf([&] {
    EXPECT_OK(a.Connect(b.self()).status());
    a.StartConnect(c.self());
    EXPECT_OK(a.AwaitConnected(1).status());
  });
  EXPECT_EQ(TimesIn(said, "ulimit -f"), 1u);
  EXPECT_CONTAINS(said, "no shared memory with " + b.self().ToString() + ": shared memory 'kungfu'");
  EXPECT_CONTAINS(said, "(ulimit -f) is too small; Unix sockets are used\n");
}

KF_TEST(ShmTransport, SaysWhyThereIsNoMemoryWhereItMustBe) {
  RequiredShmFixture fixture;
  const WithoutMemory without_memory;
  Endpoint a(&fixture), b(&fixture);
  EXPECT_OK(b.Listen());
  const Status status = a.Connect(b.self()).status();
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_CONTAINS(status.message(), b.self().ToString());
  EXPECT_CONTAINS(status.message(), "ulimit -f");
}

// Whether who connects is met before it gives up.
bool Meets(const UniqueFd& listening, const PeerId& self, UniqueFd* fd) {
  pollfd came{listening.get(), POLLIN, 0};
  EXPECT_EQ(poll(&came, 1, static_cast<int>(1000 * kPatience.count())), 1);
  *fd = UniqueFd(accept(listening.get(), nullptr, nullptr));
  const std::unique_ptr<Handshake> handshake = Handshake::Server(CredentialsOf(self));
  while (const size_t size = handshake->Wants()) {
    std::string message(size, '\0'), reply;
    if (recv(fd->get(), &message[0], size, MSG_WAITALL) != static_cast<ssize_t>(size)) return false;
    EXPECT_OK(handshake->Advance(message.data(), &reply));
    if (send(fd->get(), reply.data(), reply.size(), MSG_NOSIGNAL) < 0) return false;
  }
  return true;
}

// It has met the other side, which then keeps still: that counts, too.
KF_TEST(ShmTransport, GivesUpOnWhoDoesNotAnswerAnOffer) {
  ShmFixture fixture;
  const PeerId silent = fixture.NewPeer();
  UnixFamily family(fixture.directory(), "shm");
  StatusOr<UniqueFd> listening = family.Listen(silent);
  EXPECT_OK(listening.status());
  Endpoint a(&fixture);
  bool met = false;
  Seconds timeout{0.1};  // more, where the machine is too busy to meet within it
  for (size_t attempt = 0; !met; ++attempt, timeout *= 2) {
    a.StartConnect(silent, timeout);
    UniqueFd fd;
    met = Meets(*listening, silent, &fd);
    const Status status = a.AwaitConnected(attempt).status();
    EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
    EXPECT_CONTAINS(status.message(), silent.ToString());
  }
  family.StopListening();
}

// A peer that knows the secret and shares a segment, and then does with it whatever the test likes.
class RawPeer {
 public:
  RawPeer(ShmFixture* fixture, const PeerId& server) : socket_(fixture->ConnectRaw(server)) {
    const std::unique_ptr<Handshake> handshake = Handshake::Client(CredentialsOf(fixture->NewPeer()), server);
    WriteAll(socket_.get(), handshake->Opening());
    while (handshake->Wants() > 0) {
      std::string reply;
      EXPECT_OK(handshake->Advance(ReadExactly(socket_.get(), handshake->Wants()).data(), &reply));
      WriteAll(socket_.get(), reply);
    }
  }

  int socket() const { return socket_.get(); }
  char* data() { return segment_.data(); }
  RingControl* control() { return reinterpret_cast<RingControl*>(segment_.data()); }
  char* stream() { return segment_.data() + sizeof(RingControl); }

  void Offer(const std::vector<int>& fds) {
    char byte = 'R';
    iovec piece{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    if (!fds.empty()) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
      std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
    }
    EXPECT_EQ(sendmsg(socket_.get(), &message, MSG_NOSIGNAL), 1);
  }
  void ShareSegment() {
    UniqueFd fd;
    StatusOr<Segment> segment = Segment::Create(RingPipe::SegmentSize(), &fd);
    EXPECT_OK(segment.status());
    segment_ = std::move(*segment);
    Offer({fd.get()});
    EXPECT_EQ(ReadExactly(socket_.get(), 1), "R");
  }
  void Ring() { send(socket_.get(), "", 1, MSG_NOSIGNAL); }
  bool IsClosedByOther() {
    char bytes[4096];
    ssize_t got;
    while ((got = recv(socket_.get(), bytes, sizeof(bytes), 0)) > 0) continue;
    return got == 0 || errno == ECONNRESET;
  }

 private:
  UniqueFd socket_;
  Segment segment_;
};

// A good connection beside that of the raw peers, which must go on.
struct ShmVictim {
  ~ShmVictim() {
    const Frame frame = NewFrame("still alive", Pattern(100000, 1));
    pair.at_a->Send(frame);
    EXPECT_TRUE(pair.at_b->AwaitFrames(1)[0].payload == frame.payload);
  }
  const PeerId& self() const { return pair.b.self(); }

  ShmFixture fixture;
  Pair pair{&fixture};
};

KF_TEST(ShmTransport, TurnsAwayWhatIsNoOffer) {
  ShmVictim victim;
  UniqueFd small_fd;
  const StatusOr<Segment> small = Segment::Create(4096, &small_fd);
  const std::vector<std::vector<int>> offers = {{small_fd.get()}, {0}, {small_fd.get(), small_fd.get()}};
  for (const std::vector<int>& fds : offers) {
    RawPeer peer(&victim.fixture, victim.self());
    peer.Offer(fds);
    EXPECT_TRUE(fds.size() > 1 || peer.IsClosedByOther());
  }
  RawPeer peer(&victim.fixture, victim.self());
  WriteAll(peer.socket(), "GET / HTTP/1.1");
  EXPECT_TRUE(peer.IsClosedByOther());
}

KF_TEST(ShmTransport, ClosesWhoBreaksItsRing) {
  ShmVictim victim;
  size_t index = 1;
  for (const uint64_t written : {uint64_t{1}, ~uint64_t{0}, uint64_t{1} << 40}) {
    RawPeer peer(&victim.fixture, victim.self());
    peer.ShareSegment();
    Channel* const channel = victim.pair.b.AwaitAccepted(index++);
    peer.control()->written.store(written);
    peer.Ring();
    const Status why = channel->AwaitClosed();
    EXPECT_EQ(why.code(), Code::kInvalidArgument);
    EXPECT_CONTAINS(why.message(), "malformed ring");
    EXPECT_TRUE(peer.IsClosedByOther());
  }
  RawPeer peer(&victim.fixture, victim.self());
  peer.ShareSegment();
  std::memset(peer.stream(), 0xff, kHeaderSize);
  peer.control()->written.store(2 * kLine);
  peer.Ring();
  EXPECT_CONTAINS(victim.pair.b.AwaitAccepted(index)->AwaitClosed().message(), "malformed frame");
}

// Frames, bells and garbage: no crash, and nobody else notices.
KF_TEST(ShmTransport, SurvivesAScribblingPeer) {
  ShmVictim victim;
  std::mt19937_64 random(3);
  for (int round = 0; round < 30; ++round) {
    RawPeer peer(&victim.fixture, victim.self());
    peer.ShareSegment();
    Channel* const channel = victim.pair.b.AwaitAccepted(1 + round);
    for (int i = 0; i < 100; ++i)
      victim.pair.b.loop()->Post([channel] { channel->SendOnLoop(NewFrame("reply", Pattern(3000, 1))); });
    Frame frame = NewFrame("x", Pattern(60000, 1));
    frame.header.payload_size = frame.payload.size();
    const std::string header = EncodeHeader(frame.header);
    std::memcpy(peer.stream(), header.data(), header.size());
    peer.control()->written.store(2 * kLine + 512 * (random() % 100));
    peer.Ring();
    for (int i = 0; i < 2000; ++i) {
      peer.data()[random() % RingPipe::SegmentSize()] = static_cast<char>(random());
      if (i % 10 == 0) peer.data()[random() % sizeof(RingControl)] = static_cast<char>(random());
      if (i % 100 == 0) peer.Ring();
    }
  }
}

// What a peer has written before it died is still handed on.
KF_TEST(ShmTransport, HandsOnTheLastWordsOfAPeer) {
  ShmVictim victim;
  Frame frame = NewFrame("last words", "");
  {
    RawPeer peer(&victim.fixture, victim.self());
    peer.ShareSegment();
    const std::string header = EncodeHeader(frame.header);
    std::memcpy(peer.stream(), header.data(), header.size());
    peer.control()->written.store(2 * kLine);
  }
  Channel* const channel = victim.pair.b.AwaitAccepted(1);
  EXPECT_EQ(channel->AwaitClosed().code(), Code::kUnavailable);
  ExpectFrames(channel->AwaitFrames(1), {frame});
}

}  // namespace
}  // namespace kungfu::testing
