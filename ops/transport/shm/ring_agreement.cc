#include "ops/transport/shm/ring_agreement.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "ops/base/logging.h"
#include "ops/transport/closed_by_peer.h"
#include "ops/transport/shm/ring_pipe.h"
#include "ops/transport/socket/socket_pipe.h"

namespace kungfu {
namespace {

constexpr char kRings = 'R', kSocket = 'S';

// A byte, and a descriptor with it unless that is -1.
Status SendByte(int socket, char byte, int fd) {
  iovec piece{&byte, 1};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(fd))] = {};
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(fd));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  }
  // A byte finds room in a socket that nothing was written to but the handshake.
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 ? OkStatus()
                                                                     : UnavailableError(std::strerror(errno));
}

// Returns false if nothing has come yet. One descriptor at most is taken; the system closes what does not fit.
StatusOr<bool> ReceiveByte(int socket, char* byte, UniqueFd* fd) {
  iovec piece{byte, 1};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  message.msg_control = control;
  message.msg_controllen = CMSG_LEN(sizeof(int));
  const ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
  if (got <= 0) return got == 0 ? ClosedByPeer() : UnavailableError(std::strerror(errno));
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len == CMSG_LEN(sizeof(int))) {
    int received;
    std::memcpy(&received, CMSG_DATA(header), sizeof(received));
    *fd = UniqueFd(received);
  }
  return true;
}

Status Malformed() { return InvalidArgumentError("malformed offer of shared memory"); }

}  // namespace

RingAgreement::RingAgreement(EventLoop* loop, UniqueFd socket, bool opened_here, Deadline deadline,
                             std::shared_ptr<ReadScratch> scratch, Without without, Callback done)
    : loop_(loop),
      socket_(std::move(socket)),
      opened_here_(opened_here),
      scratch_(std::move(scratch)),
      without_(std::move(without)),
      done_(std::move(done)) {
  const Status sent = opened_here ? SendOffer() : OkStatus();
  const Status late = sent.ok() ? UnavailableError("no answer to the offer of shared memory in time") : sent;
  timer_ = loop_->RunAtOnLoop(sent.ok() ? deadline : Clock::now(), [this, late] { Finish(late); });
  loop_->WatchOnLoop(socket_.get(), EPOLLIN, this);
}

RingAgreement::~RingAgreement() {
  if (over_) return;
  loop_->CancelTimerOnLoop(timer_);
  loop_->UnwatchOnLoop(socket_.get());
}

Status RingAgreement::SendOffer() {
  UniqueFd memory;
  StatusOr<Segment> segment = Segment::Create(RingPipe::SegmentSize(), &memory);
  if (!segment.ok()) {
    KF_RETURN_IF_ERROR(without_(segment.status().message()));
    return SendByte(socket_.get(), kSocket, -1);
  }
  segment_ = std::move(*segment);
  return SendByte(socket_.get(), kRings, memory.get());
}

void RingAgreement::OnEventsOnLoop(uint32_t events) {
  KF_DCHECK(loop_->InLoop());
  const Status status = opened_here_ ? TakeAnswer() : TakeOffer();
  if (!status.ok() || over_) Finish(status);
}

Status RingAgreement::TakeOffer() {
  char offer = 0;
  UniqueFd memory;
  const StatusOr<bool> came = ReceiveByte(socket_.get(), &offer, &memory);
  KF_RETURN_IF_ERROR(came.status());
  if (!*came) return OkStatus();
  if (offer != kRings && offer != kSocket) return Malformed();
  if (offer == kRings) {
    StatusOr<Segment> segment = memory.get() < 0
                                    ? ResourceExhaustedError("its descriptor did not arrive: too many open files?")
                                    : Segment::Map(memory, RingPipe::SegmentSize());
    if (!segment.ok() && segment.status().code() == Code::kInvalidArgument) return segment.status();
    if (segment.ok()) {
      segment_ = std::move(*segment);
    } else {
      KF_RETURN_IF_ERROR(without_(segment.status().message()));
    }
  } else {
    KF_RETURN_IF_ERROR(without_("the other peer has none to offer"));
  }
  over_ = true;
  return SendByte(socket_.get(), segment_.size() > 0 ? kRings : kSocket, -1);
}

Status RingAgreement::TakeAnswer() {
  char answer = 0;
  UniqueFd nothing;
  const StatusOr<bool> came = ReceiveByte(socket_.get(), &answer, &nothing);
  KF_RETURN_IF_ERROR(came.status());
  if (!*came) return OkStatus();
  const bool offered = segment_.size() > 0;
  if (answer != kSocket && !(answer == kRings && offered)) return Malformed();
  if (answer == kSocket && offered) {
    segment_ = Segment();
    KF_RETURN_IF_ERROR(without_("the other peer cannot map it"));
  }
  over_ = true;
  return OkStatus();
}

void RingAgreement::Finish(const Status& status) {
  over_ = true;
  loop_->CancelTimerOnLoop(timer_);
  loop_->UnwatchOnLoop(socket_.get());
  const Callback done = std::move(done_);
  if (!status.ok()) return done(status);
  std::unique_ptr<FramePipe> pipe;
  if (segment_.size() > 0) {
    pipe = std::make_unique<RingPipe>(loop_, std::move(socket_), std::move(segment_), opened_here_);
  } else {
    pipe = std::make_unique<SocketPipe>(loop_, "unix", std::move(socket_), scratch_);
  }
  done(std::move(pipe));
}

}  // namespace kungfu
