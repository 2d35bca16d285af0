#include "ops/collective/prepared_operation.h"

#include <utility>

namespace kungfu {
namespace {

// Those with one stage, which all peers do together.
bool IsPlain(const Operation& operation) {
  const bool is_sum = operation.kind == Kind::kAllReduce || operation.kind == Kind::kBarrier;
  return is_sum && operation.parents.empty() && !operation.measured && !operation.mixing;
}

}  // namespace

PreparedOperation::PreparedOperation(Router* router, Routes* routes, const PeerList& peers, const MoverFactory& movers,
                                     OperationId id, Operation* operation, ConversationHandler* handler)
    : operation_(*operation),
      movers_(movers),
      rank_(routes->rank()),
      is_plain_(IsPlain(*operation)),
      op_(operation->op),
      conversation_(router, peers, std::move(id), SignatureOf(*operation), handler),
      plan_(operation, routes) {}

bool PreparedOperation::Fits(const Operation& next) const {
  const Signature& mine = conversation_.signature();
  return is_plain_ && IsPlain(next) && next.kind == mine.kind && next.dtype == mine.dtype && next.op == op_ &&
         TotalCount(next) == mine.count && ShapeDigestOf(next) == mine.shape_digest;
}

bool PreparedOperation::RestOnLoop() {
  again_ = mover_ ? mover_->RepeatOnLoop() : nullptr;
  if (!again_) DropMover();
  conversation_.EndOnLoop();
  return is_plain_;
}

void PreparedOperation::RepeatOnLoop(uint64_t number) {
  conversation_.RepeatOnLoop(number, operation_.step);
  plan_.Restart();
}

StatusOr<Mover*> PreparedOperation::NextOnLoop() {
  if (Movement* const movement = std::exchange(again_, nullptr)) {
    plan_.Refill(movement);
    return mover_.get();
  }
  StatusOr<std::unique_ptr<Movement>> movement = plan_.Next();
  if (!movement.ok()) return movement.status();
  if (!*movement) return static_cast<Mover*>(nullptr);
  mover_ = movers_(std::move(**movement), rank_, &conversation_);
  return mover_.get();
}

}  // namespace kungfu
