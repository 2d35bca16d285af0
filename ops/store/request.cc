#include "ops/store/request.h"

#include <algorithm>
#include <utility>

#include "ops/base/logging.h"
#include "ops/router/pull.h"

namespace kungfu {
namespace {

constexpr Seconds kGrace{10};  // to let go of sends: we send no data

Signature Expected(const Query& query) {
  Signature expected = query.expected;
  expected.step = query.version ? *query.version + 1 : 0;
  return expected;
}

}  // namespace

std::string Title(const Request& request) {
  if (request.query.takes)
    return (request.waits ? "get from queue '" : "collect from outbox '") + request.query.name + "'";
  const std::string title = "request of '" + request.query.name + "'";
  return request.query.version ? title + " version " + std::to_string(*request.query.version) : title;
}

std::string TargetOf(const Request& request) {
  return "rank " + std::to_string(request.target) + " (" + request.peers[request.target].ToString() + ")";
}

Pull::Pull(EventLoop* loop, Router* router, uint64_t number, const Request* request,
           std::function<void(const Status& status, const BlobHead& head)> ended)
    : loop_(loop),
      router_(router),
      request_(request),
      id_{kNoEpoch, number, request->query.name},
      expected_(Expected(request->query)),
      ended_(std::move(ended)) {}

Pull::~Pull() = default;

void Pull::StartOnLoop() {
  KF_DCHECK(loop_->InLoop());
  conversation_ = std::make_unique<Conversation>(router_, request_->peers, id_, expected_, this);
  const auto early = conversation_->OpenOnLoop();
  if (early) return OnMismatchOnLoop(early->from, early->difference);
  const uint32_t flags = (request_->waits ? kPullWaits : 0) | (request_->query.takes ? kPullTakes : 0);
  const Status asked = router_->PullOnLoop(request_->peers[request_->target], id_, expected_, flags);
  if (!asked.ok()) return RefusedOnLoop(asked);
  ReceiveOnLoop(0, {{head_, sizeof(head_)}});
  uint64_t size = 0;
  for (const MutableBytes& place : request_->places) size += place.size;
  uint32_t part = 1;
  for (uint64_t begin = 0; begin < size; begin += kPullPart, ++part) {
    ReceiveOnLoop(part, Slice(request_->places, begin, std::min(kPullPart, size - begin)));
  }
}

void Pull::ReceiveOnLoop(uint32_t part, Pieces places) {
  if (!ended_) return;
  uint64_t size = 0;
  for (const MutableBytes& place : places) size += place.size;
  sinks_.push_back(std::make_unique<CopySink>(std::move(places)));
  ++missing_;
  if (conversation_->ReceiveOnLoop(request_->target, part, size, sinks_.back().get(),
                                   [this](const Status& status) { OnPartOnLoop(status); })) {
    // It cannot be here yet: the peer sends data only on request.
    --missing_;
    GiveUpOnLoop(InternalError("sent before it was asked for"));
  }
}

void Pull::OnPartOnLoop(const Status& status) {
  KF_DCHECK(loop_->InLoop());
  const bool may_go_on = request_->survives || router_->HasLeftOnLoop(request_->peers[request_->target]);
  if (may_go_on && status.code() == Code::kUnavailable) return EndOnLoop(Left(status));
  if (!status.ok()) return EndOnLoop(status);
  if (--missing_ == 0) EndOnLoop(OkStatus());
}

// A living peer that cannot be asked is about to leave.
void Pull::RefusedOnLoop(const Status& why) {
  KF_DCHECK(loop_->InLoop());
  const Status status = why.WithContext("from " + TargetOf(*request_));
  EndOnLoop(why.code() == Code::kUnavailable ? Left(status) : status);
}

// For a request that does not wait, a peer that has ended in order is one that has not saved the blob. From its queues
// nothing comes any more, which is not the same as nothing yet.
Status Pull::Left(const Status& why) const {
  return request_->waits || request_->query.takes ? why : Status(Code::kNotFound, why.message());
}

void Pull::OnMismatchOnLoop(const PeerId&, const std::string& difference) {
  KF_DCHECK(loop_->InLoop());
  EndOnLoop(InvalidArgumentError("from " + TargetOf(*request_) + ": " + difference));
}

void Pull::GiveUpOnLoop(const Status& status) {
  KF_DCHECK(loop_->InLoop());
  if (!ended_) return;
  router_->DropPullOnLoop(request_->peers[request_->target], id_);
  EndOnLoop(status);
}

// First nothing is written any more, then it is said.
void Pull::EndOnLoop(const Status& status) {
  if (!ended_) return;
  conversation_->CloseOnLoop(kGrace, [] {});
  std::exchange(ended_, nullptr)(status, DecodeBlobHead(head_));
}

}  // namespace kungfu
