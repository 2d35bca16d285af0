// How the survivors agree on what is delivered and what is repeated (transactions.h).

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "ops/base/logging.h"
#include "ops/elastic/membership.h"
#include "ops/peer/transactions.h"

namespace kungfu {
namespace {

constexpr char kBegunName[] = "kungfu/the exchanges that the survivors have begun";
constexpr char kProgressName[] = "kungfu/how far the survivors are";
// In place of an era's epoch.
constexpr uint64_t kOnWay = ~uint64_t{0}, kNowhere = kOnWay - 1;

bool IsOf(const Transactions::Era& era, uint32_t change) { return era.epoch >> kEpochBits == change; }

void Append(std::vector<char>* out, const void* data, size_t size) {
  const char* const bytes = static_cast<const char*>(data);
  out->insert(out->end(), bytes, bytes + size);
}

void AppendNumber(std::vector<char>* out, uint64_t number) { Append(out, &number, sizeof(number)); }

// Plain bytes of processes that are alike: null if they end too early.
class Reader {
 public:
  Reader(const char* begin, const char* end) : next_(begin), end_(end) {}

  bool Number(uint64_t* number) {
    if (static_cast<size_t>(end_ - next_) < sizeof(*number)) return false;
    std::memcpy(number, next_, sizeof(*number));
    next_ += sizeof(*number);
    return true;
  }
  bool Text(std::string* text) {
    uint64_t size;
    if (!Number(&size) || size > static_cast<size_t>(end_ - next_)) return false;
    text->assign(next_, size);
    next_ += size;
    return true;
  }
  bool over() const { return next_ == end_; }

 private:
  const char* next_;
  const char* const end_;
};

}  // namespace

// First the peers tell each other where they are, and the exchanges that they have begun and not delivered; then how
// far each exchange is.
void Transactions::MeetOnLoop(const Arrival& arrival, StatusCallback met) {
  KF_DCHECK(loop_->InLoop());
  meeting_ = std::make_unique<Meeting>();
  meeting_->session = session_();
  meeting_->arrival = arrival;
  meeting_->met = std::move(met);
  AppendNumber(&meeting_->mine, arrival.is_on_way ? kOnWay : gave_up_ ? kNowhere : era_.epoch);
  AppendNumber(&meeting_->mine, static_cast<uint64_t>(era_.peers));
  for (const auto& [key, exchange] : exchanges_) {
    AppendNumber(&meeting_->mine, key.first.size());
    Append(&meeting_->mine, key.first.data(), key.first.size());
    AppendNumber(&meeting_->mine, key.second);
  }
  GatherOnLoop(kBegunName, [this] { CompareOnLoop(); });
}

void Transactions::GatherOnLoop(const char* name, std::function<void()> next) {
  KF_DCHECK(loop_->InLoop());
  Meeting* const meeting = meeting_.get();
  Operation gather;
  gather.kind = Kind::kAllGather;
  gather.name = name;
  gather.of_core = true;
  gather.spans = {{meeting->mine.data(), nullptr, meeting->mine.size()}};
  // The meeting may be another one by then, if this one has failed.
  const std::shared_ptr<Session> session = meeting->session;
  auto keeps = std::make_shared<Meeting>();
  std::swap(keeps->mine, meeting->mine);
  gather.spans[0].send = keeps->mine.data();
  gather.allocate = [keeps](const std::vector<uint64_t>& counts) -> void* {
    uint64_t total = 0;
    for (const uint64_t count : counts) total += count;
    keeps->counts = counts;
    keeps->all.resize(std::max<uint64_t>(1, total));
    return keeps->all.data();
  };
  gather.done = [this, session, keeps, next = std::move(next)](const Status& status) {
    if (!meeting_ || meeting_->session != session) return;
    if (!surviving_) return EndMeetingOnLoop(UnavailableError("the survivors have not met"));
    if (status.ok()) {
      meeting_->counts = std::move(keeps->counts);
      meeting_->all = std::move(keeps->all);
      return next();
    }
    for (const auto& [handle, call] : calls_) call->failure = status;
    surviving_ = false;
    if (!never_ && status.code() == Code::kUnavailable) {
      WaitForSurvivorsOnLoop();
    } else {
      FailWaitingOnLoop();
    }
    EndMeetingOnLoop(status);
  };
  session->RunAtOnceOnLoop(std::move(gather));
}

void Transactions::EndMeetingOnLoop(const Status& status) {
  KF_DCHECK(loop_->InLoop());
  const StatusCallback met = std::move(meeting_->met);
  meeting_.reset();
  met(status);
}

void Transactions::CompareOnLoop() {
  KF_DCHECK(loop_->InLoop());
  struct Told {
    Era era{kNowhere, 0};
    std::vector<Key> keys;
  };
  std::vector<Told> all;
  const char* begin = meeting_->all.data();
  bool understood = true;
  for (const uint64_t count : meeting_->counts) {
    Reader reader(begin, begin + count);
    begin += count;
    Told told;
    uint64_t peers = 0;
    understood = understood && reader.Number(&told.era.epoch) && reader.Number(&peers) && told.era.epoch != kNowhere;
    told.era.peers = static_cast<int>(peers);
    while (understood && !reader.over()) {
      Key key;
      understood = reader.Text(&key.first) && reader.Number(&key.second);
      told.keys.push_back(std::move(key));
    }
    all.push_back(std::move(told));
  }
  // Those that are on the way to the change, or there, have left the era before. A peer that is there knows how many
  // peers made the change. If none is there, those that meet make it.
  const uint32_t change = meeting_->arrival.change;
  bool has_changed = false;
  Era changed{FirstEpoch(change), static_cast<int>(meeting_->counts.size())};
  for (const Told& told : all) {
    const bool is_there = IsOf(told.era, change);
    if (is_there) changed.peers = told.era.peers;
    has_changed = has_changed || is_there || told.era.epoch == kOnWay;
  }
  if (understood && has_changed) CatchUpOnLoop(changed);
  std::set<Key> keys;
  for (const Told& told : all) {
    if (has_changed && !IsOf(told.era, change)) continue;
    understood = understood && told.era.epoch == era_.epoch;
    keys.insert(told.keys.begin(), told.keys.end());
  }
  if (!understood) {
    for (const auto& [handle, call] : calls_) {
      call->failure = UnavailableError(Title(call->operation) + ": the survivors are not in the same epoch");
    }
    NeverRepeatOnLoop();
    return EndMeetingOnLoop(UnavailableError("the survivors are not in the same epoch"));
  }
  meeting_->keys.assign(keys.begin(), keys.end());
  for (const Key& key : meeting_->keys) meeting_->mine.push_back(ProgressOf(key));
  GatherOnLoop(kProgressName, [this] { ResolveOnLoop(); });
}

// Others are on the way to the change, or there. So it is complete here, too, unless this peer is on the way or there
// itself.
void Transactions::CatchUpOnLoop(const Era& changed) {
  KF_DCHECK(loop_->InLoop());
  if (IsOf(era_, changed.change().version)) {
    era_.peers = changed.peers;
    return;
  }
  DeliverChangeOnLoop();
  FailOnLoop(CancelledError("the peers have changed"), changed);
}

void Transactions::DeliverChangeOnLoop() {
  KF_DCHECK(loop_->InLoop());
  const auto found = exchanges_.lower_bound({kChangeName, 0});
  const bool is_there = found != exchanges_.end() && found->first.first == kChangeName;
  if (is_there && found->second->is_complete()) DeliverOnLoop(found->second.get());
}

void Transactions::LeaveOnLoop() {
  KF_DCHECK(loop_->InLoop());
  DeliverChangeOnLoop();
  meeting_.reset();
  GiveUpOnLoop(Status(Code::kAborted, "this peer takes no part any more"));
  NeverRepeatOnLoop();
}

Transactions::Progress Transactions::ProgressOf(const Key& key) const {
  const auto found = exchanges_.find(key);
  if (found != exchanges_.end()) return found->second->is_complete() ? kAllHere : kBegun;
  if (failed_.count(key) != 0) return kFailed;
  const auto begun = begun_.find(key.first);
  return begun != begun_.end() && key.second < begun->second ? kDelivered : kNotBegun;
}

void Transactions::ResolveOnLoop() {
  KF_DCHECK(loop_->InLoop());
  const size_t count = meeting_->keys.size();
  const size_t peers = meeting_->counts.size();
  std::set<Key> delivered, failed;
  for (size_t i = 0; i < count; ++i) {
    bool is_delivered = false, has_failed = false, is_complete = true;
    for (size_t peer = 0; peer < peers; ++peer) {
      const char progress = meeting_->all[peer * count + i];
      is_delivered = is_delivered || progress == kDelivered;
      has_failed = has_failed || progress == kFailed;
      is_complete = is_complete && progress == kAllHere;
    }
    if (is_delivered || is_complete) {
      delivered.insert(meeting_->keys[i]);
    } else if (has_failed) {
      failed.insert(meeting_->keys[i]);
    }
  }
  surviving_ = false;
  failed_.clear();
  RepeatOnLoop(delivered, failed);
  EndMeetingOnLoop(OkStatus());
}

// The peers begin the operations of one name in the same order, so the new session numbers them alike.
void Transactions::RepeatOnLoop(const std::set<Key>& delivered, const std::set<Key>& failed) {
  KF_DCHECK(loop_->InLoop());
  std::vector<uint64_t> repeated;
  for (const auto& [handle, call] : calls_) {
    Exchange* const exchange = call->exchange;
    if (exchange == nullptr) continue;
    const Key key{exchange->name, exchange->number};
    if (delivered.count(key) != 0 || failed.count(key) != 0) continue;
    exchange->complete = 0;
    call->stage = Stage::kWaiting;
    call->failure = OkStatus();
    repeated.push_back(handle);
  }
  for (const uint64_t handle : repeated) {
    const auto found = calls_.find(handle);
    if (found != calls_.end() && found->second->stage == Stage::kWaiting) RunOnLoop(found->second.get());
  }
  for (const Key& key : delivered) {
    const auto found = exchanges_.find(key);
    if (found == exchanges_.end()) continue;
    Exchange* const exchange = found->second.get();
    if (exchange->is_complete()) {
      DeliverOnLoop(exchange);
    } else {
      FailExchangeOnLoop(exchange, InternalError(key.first + " was delivered by a survivor, and is not complete here"));
    }
  }
  for (const Key& key : failed) {
    const auto found = exchanges_.find(key);
    if (found == exchanges_.end()) continue;
    FailExchangeOnLoop(found->second.get(), Status(Code::kAborted, key.first + " has failed on another survivor"));
  }
}

}  // namespace kungfu
