// Groups: sessions of some peers within the session of all.

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "ops/base/logging.h"
#include "ops/collective/session.h"

namespace kungfu {
namespace {

// "kungfu/group 7/" stands before the names of group 7. No name of a program begins so.
constexpr char kGroupPrefix[] = "kungfu/group ";

std::string PrefixOf(uint64_t number) { return kGroupPrefix + std::to_string(number) + "/"; }

// One tree over all peers is none of the group.
SessionOptions WithoutTree(SessionOptions options) {
  if (!options.strategy.parents.empty()) options.strategy = StrategySpec();
  return options;
}

PeerList Members(const PeerList& peers, const std::vector<int>& ranks) {
  std::vector<PeerId> members;
  for (const int rank : ranks) members.push_back(peers[rank]);
  return PeerList(members);
}

}  // namespace

std::string RanksText(const std::vector<int>& ranks) {
  constexpr size_t kShown = 16;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size() && i < kShown; ++i) text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  if (ranks.size() > kShown) text += " and " + std::to_string(ranks.size() - kShown) + " more";
  return text;
}

Session::Session(const Session& whole, uint64_t number, const std::vector<int>& ranks)
    : loop_(whole.loop_),
      router_(whole.router_),
      peers_(Members(whole.peers_, ranks)),
      rank_(peers_.RankOf(whole.peers_[whole.rank_])),
      epoch_(whole.epoch_),
      options_(WithoutTree(whole.options_)),
      counters_(whole.counters_),
      graph_movers_(whole.graph_movers_),
      first_failure_(whole.first_failure_),
      shared_(whole.shared_),
      prefix_(PrefixOf(number)),
      among_(" among " + RanksText(ranks)),
      operations_(MakeTable()) {}

std::map<uint64_t, std::shared_ptr<const Session::Group>> Session::groups() const {
  MutexLock lock(&groups_mu_);
  return groups_;
}

std::shared_ptr<const Session::Group> Session::FindGroup(uint64_t number) const {
  MutexLock lock(&groups_mu_);
  const auto found = groups_.find(number);
  return found == groups_.end() ? nullptr : found->second;
}

void Session::ForGroupsOnLoop(const std::function<void(Session* group)>& visit) const {
  if (!has_groups_) return;
  for (const auto& [number, group] : groups()) {
    if (group->session) visit(group->session.get());
  }
}

Session* Session::GroupOfOnLoop(const OperationId& id) const {
  if (!has_groups_ || id.name.rfind(kGroupPrefix, 0) != 0) return nullptr;
  const std::shared_ptr<const Group> group =
      FindGroup(std::strtoull(id.name.c_str() + sizeof(kGroupPrefix) - 1, nullptr, 10));
  return group ? group->session.get() : nullptr;
}

void Session::AddGroup(uint64_t number, const std::vector<int>& ranks) {
  auto group = std::make_shared<Group>(Group{ranks, nullptr});
  if (std::find(ranks.begin(), ranks.end(), rank_) != ranks.end()) {
    group->session = std::shared_ptr<Session>(new Session(*this, number, ranks));
  }
  {
    MutexLock lock(&groups_mu_);
    groups_[number] = group;
    has_groups_ = true;
  }
  if (watch_ && group->session) BeginGroupOnLoop(number, group->session.get());
}

void Session::AddGroupsOf(const Session& old) {
  for (const auto& [number, group] : old.groups()) AddGroup(number, group->ranks);
}

// Others may have made it, and failed in it, before this peer heard of it.
void Session::BeginGroupOnLoop(uint64_t number, Session* group) {
  KF_DCHECK(loop_->InLoop());
  operations_.GiveEarlyFailuresOnLoop(&group->operations_);
  group->broken_ = group->operations_.EarlyFailureOnLoop(group->AgreementId());
  const std::shared_ptr<const Group> before = previous_ ? previous_->FindGroup(number) : nullptr;
  group->BeginOnLoop(before ? before->session : nullptr);
}

void Session::CloseGroup(uint64_t number) {
  const std::shared_ptr<const Group> group = FindGroup(number);
  if (!group) return;
  const bool runs = group->session && group->session->watch_;
  const auto forget = [self = shared_from_this(), group, number, runs] {
    if (runs) group->session->EndOnLoop();
    if (runs) self->loop_->Post([group] {});  // its operation that has just ended is not over for all
    MutexLock lock(&self->groups_mu_);
    self->groups_.erase(number);
    self->has_groups_ = !self->groups_.empty();
  };
  if (!runs) return forget();
  group->session->AbortOnLoop(CancelledError("the group was removed"));
  group->session->WhenIdleOnLoop(forget);
}

}  // namespace kungfu
