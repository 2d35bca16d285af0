#include "ops/collective/agreement.h"

#include <string>
#include <utility>

#include "ops/base/docs_link.h"
#include "ops/base/logging.h"
#include "ops/collective/exchange_mover.h"
#include "ops/plan/partition.h"

namespace kungfu {
namespace {

constexpr char kChoiceName[] = "kungfu/the choice of a strategy";

}  // namespace

Agreement::Agreement(EventLoop* loop, Pinger* pinger, const PeerList& peers, int rank, const Means& means, Run run,
                     Agreed agreed)
    : loop_(loop),
      pinger_(pinger),
      peers_(peers),
      rank_(rank),
      means_(means),
      run_(std::move(run)),
      agreed_(std::move(agreed)) {}

Agreement::~Agreement() = default;

void Agreement::TellOnLoop(const std::string& name, void* data, size_t size, StatusCallback done) {
  KF_DCHECK(loop_->InLoop());
  Operation tell;
  tell.kind = Kind::kBroadcast;
  tell.name = name;
  tell.dtype = DType::kUint8;
  tell.spans = {{data, data, size}};
  tell.done = std::move(done);
  run_(std::move(tell));
}

// Two peers have no choice.
void Agreement::StartOnLoop() {
  KF_DCHECK(loop_->InLoop());
  const bool wants_auto = means_.strategy == StrategyName::kAuto;
  proposal_.choice = !wants_auto       ? Choice::Of(means_.strategy)
                     : means_.measured ? *means_.measured
                                       : Choice::Of(StrategyName::kClique);
  proposal_.measures = wants_auto && !means_.measured && peers_.size() > 2;
  proposal_.chunk_bytes = means_.chunk_bytes;
  proposal_.exchanges = wants_auto && means_.exchanges && peers_.size() <= kMostExchangers;
  proposal_.direct = means_.direct && (wants_auto || means_.strategy == StrategyName::kHierarchy);
  proposal_.direct_bytes = means_.direct_bytes;
  TellOnLoop(kAgreementName, &proposal_, sizeof(proposal_), [this](const Status& status) { ProposedOnLoop(status); });
}

void Agreement::ProposedOnLoop(const Status& status) {
  KF_DCHECK(loop_->InLoop());
  if (!status.ok()) return FailOnLoop(status);
  if (proposal_.chunk_bytes < kMinChunkBytes || proposal_.chunk_bytes > kMaxChunkBytes) {
    return EndOnLoop(InternalError("rank 0 uses chunks of " + std::to_string(proposal_.chunk_bytes) +
                                   " bytes, which cannot be done here"));
  }
  if (proposal_.direct != 0) {
    if (HostMeeting::HasPlace(peers_, rank_)) return MeetOnLoop();
    HostMeeting::SayIfTooMany(peers_, rank_);
  }
  ChooseOnLoop();
}

void Agreement::MeetOnLoop() {
  KF_DCHECK(loop_->InLoop());
  meeting_ = std::make_unique<HostMeeting>(loop_, means_.arena, peers_, rank_, run_,
                                           [this](StatusOr<std::unique_ptr<DirectGroup>> group) {
                                             if (!group.ok()) return FailOnLoop(group.status());
                                             terms_.direct = std::move(*group);
                                             ChooseOnLoop();
                                           });
  meeting_->StartOnLoop();
}

void Agreement::ChooseOnLoop() {
  KF_DCHECK(loop_->InLoop());
  if (proposal_.measures == 0) return ChosenOnLoop();
  if (rank_ != 0) return TellChoiceOnLoop();
  probe_ = std::make_unique<LinkProbe>(pinger_, peers_, rank_);
  probe_->StartOnLoop([this](const LinkEstimates& estimates) {
    KF_LOG(INFO) << estimates.ToString();
    const bool direct = proposal_.direct != 0 && peers_.HostCount() > 1 &&
                        HostMeeting::SomeMeet(peers_, rank_, terms_.direct != nullptr);
    proposal_.choice =
        Choose(peers_, proposal_.chunk_bytes, estimates.Costs(), direct ? proposal_.direct_bytes : kNever);
    TellChoiceOnLoop();
  });
}

void Agreement::TellChoiceOnLoop() {
  KF_DCHECK(loop_->InLoop());
  TellOnLoop(kChoiceName, &proposal_.choice, sizeof(proposal_.choice), [this](const Status& status) {
    if (!status.ok()) return FailOnLoop(status);
    ChosenOnLoop();
  });
}

void Agreement::ChosenOnLoop() {
  KF_DCHECK(loop_->InLoop());
  const Choice& choice = proposal_.choice;
  if (!choice.IsValid()) return EndOnLoop(InternalError("rank 0 uses a strategy that is not known here"));
  terms_.ways.choice = choice;
  terms_.ways.size = peers_.size();
  terms_.ways.exchanges = proposal_.exchanges != 0;
  terms_.ways.meeting = terms_.direct ? terms_.direct->size() : 0;
  terms_.ways.direct_bytes = proposal_.direct_bytes;
  terms_.measured = proposal_.measures != 0 ? choice : means_.measured;
  terms_.chunk_bytes = proposal_.chunk_bytes;
  if (rank_ == 0) {
    KF_LOG(INFO) << "strategy " << Name(means_.strategy) << " for " << peers_.ToString() << ": "
                 << terms_.ways.ToString();
  } else if (means_.strategy != StrategyName::kAuto && means_.strategy != choice.Last()) {
    KF_LOG(WARNING) << "strategy " << Name(means_.strategy) << " of rank " << rank_
                    << " is not used, for rank 0 was given another one: " << terms_.ways.ToString();
  }
  EndOnLoop(std::move(terms_));
}

void Agreement::FailOnLoop(const Status& why) {
  KF_DCHECK(loop_->InLoop());
  const Status told = why.WithContext("the peers have not come together");
  EndOnLoop(Status(told.code(), Linked("not-together", told.message())));
}

void Agreement::EndOnLoop(StatusOr<Terms> terms) {
  KF_DCHECK(loop_->InLoop());
  std::exchange(agreed_, nullptr)(std::move(terms));
}

}  // namespace kungfu
