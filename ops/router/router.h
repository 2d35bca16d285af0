// Named messages between the peers of a session. The router opens a connection to a peer for the first message to it,
// accepts connections of others, and matches messages with receivers (mailbox.h).
//
// Everything is called on the event loop's thread.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/base/deadline.h"
#include "ops/plan/peer_list.h"
#include "ops/router/in_link.h"
#include "ops/router/mailbox.h"
#include "ops/router/out_link.h"
#include "ops/router/peer_links.h"
#include "ops/router/pull.h"
#include "ops/router/traffic.h"
#include "ops/transport/choice/transport_set.h"
#include "ops/transport/event_loop.h"
#include "ops/transport/transport.h"

namespace kungfu {

// The session, as the router sees it.
class RouterHandler {
 public:
  virtual ~RouterHandler() = default;
  // A peer says that an operation has failed; it may not have begun here. `passed_on`: it was told so itself.
  virtual void OnFailOnLoop(const PeerId& from, const OperationId& id, const Status& status, bool passed_on) = 0;
  // A peer asks for the state of an operation, and tells its signature: OK if it is open here, kNotFound if it has not
  // begun, with a text about this peer's work instead.
  virtual Status OnAskOnLoop(const PeerId& from, const OperationId& id, const Signature& theirs) = 0;
  virtual void OnAnswerOnLoop(const PeerId& from, const OperationId& id, const Status& answer) = 0;
  // Nothing will come from or reach this peer any more. `left`: it said goodbye. Returns what those fail with that
  // await something of it.
  virtual Status OnPeerLostOnLoop(const PeerId& peer, const Status& why, bool left) = 0;
};

class Router : public InLinkOwner, public OutLinkOwner {
 public:
  // The loop and the transports must outlive it. `open`: peers that are not members yet may connect, too; their
  // messages wait for the epoch that they are members of.
  Router(EventLoop* loop, TransportSet* transports, Seconds connect_timeout, bool open = false);
  ~Router() override;

  // Starts to accept connections.
  // REQUIRES: an epoch was begun.
  Status ListenOnLoop();
  // From now on messages of `epoch` between `peers` are routed; messages of older epochs are refused. A peer that began
  // it earlier may have sent some already: they are waiting. The handler hears of members that were lost before. Former
  // members get a goodbye, and are forgotten. REQUIRES: epochs ascend; no operation of an older epoch is open.
  void BeginEpochOnLoop(uint32_t epoch, const PeerList& peers, RouterHandler* handler);

  // Connections with these peers are made anew: those that they have now are over, whether they work or not. What
  // awaits or sends something fails. All peers do it with the same list, each for itself. `generation`: the epoch that
  // it is for, higher than the one before. REQUIRES: what is under way in the epoch is given up.
  void RenewOnLoop(const PeerList& peers, const PeerId& self, uint32_t generation);
  // `broken` is told when a connection with a member of `epoch` has ended without a goodbye.
  void SetBrokenHandlerOnLoop(std::function<void(uint32_t epoch)> broken);

  // Tells `peer` that the operation has failed / asks for its state.
  void NotifyFailureOnLoop(const PeerId& peer, const OperationId& id, const Status& status, bool passed_on);
  // `filler`: bytes that the question carries for nothing but the time they take, at most kMaxEagerSize.
  void AskOnLoop(const PeerId& peer, const OperationId& id, const Signature& ours, size_t filler = 0);

  // The operation has failed here before it was opened: its messages are refused.
  void RefuseOnLoop(const OperationId& id);

  // -- Outside of epochs: see pull.h --

  // Pulls are refused until there is a handler, which must outlive the router or be taken back (null).
  void SetPullHandlerOnLoop(PullHandler* handler);
  // As asker. A Conversation with `id`, which was opened before, receives the data. kUnavailable: the keeper is no
  // member, or no more, and is not asked.
  Status PullOnLoop(const PeerId& keeper, const OperationId& id, const Signature& expected, uint32_t flags);
  void DropPullOnLoop(const PeerId& keeper, const OperationId& id);
  // As keeper, to a peer that has asked. The bytes must stay until `done`, as in Conversation::SendOnLoop.
  void SendPulledOnLoop(const PeerId& asker, const OperationId& id, uint32_t part, const Signature& signature,
                        Payload payload, StatusCallback done);
  void WithdrawPulledOnLoop(const PeerId& asker, const OperationId& id);
  void RefusePullOnLoop(const PeerId& asker, const OperationId& id, const Status& why);

  // -- The peers --

  // Whether there is or was a connection with the peer; the time of its last sign of life; the number of bytes sent to
  // it.
  bool ConnectedOnLoop(const PeerId& peer) const;
  Clock::time_point LastHeardOnLoop(const PeerId& peer);
  uint64_t BytesSentOnLoop(const PeerId& peer) const;
  // Whether the peer is gone after a goodbye: it has ended, and did not crash.
  bool HasLeftOnLoop(const PeerId& peer) const;
  // Ends the connections with a peer; OnPeerLost follows with `why`.
  void GiveUpOnLoop(const PeerId& peer, const Status& why);

  // Takes leave of all peers and calls `closed` when all connections are over, at the latest at `deadline`.
  void CloseOnLoop(Deadline deadline, std::function<void()> closed);

  RouterTotals TotalsOnLoop() const;
  Traffic TrafficOnLoop(const PeerId& peer) const;

 private:
  friend class Conversation;

  OutLink* LinkTo(const PeerId& peer);
  // Runs `task` then, if the router is still there.
  void AfterOnLoop(Seconds delay, std::function<void()> task);
  void LaterOnLoop(std::function<void()> task);
  ConnectionHandler* Accept(std::unique_ptr<Connection> connection);
  void LinkClosed(const PeerId& peer, const Status& why);
  void Lost(const PeerId& peer);
  // Runs `task` then, if the peer's connections are those of now.
  void AfterOnLoop(const PeerId& peer, Seconds delay, std::function<void()> task);
  void Retire(PeerLinks* peer, const Status& why);
  void TellOfLoss(const PeerId& peer, const Status& why);
  void PartFrom(const PeerId& peer);
  void FinishCloseIfIdle();

  // InLinkOwner, OutLinkOwner
  void OnFailFrameOnLoop(const PeerId& from, const Tag& tag, const Status& status) override;
  Status OnAskOnLoop(const PeerId& from, const Tag& tag, const Signature& theirs) override;
  void OnPullOnLoop(const PeerId& from, const FrameHeader& pull) override;
  void OnInLinkClosedOnLoop(InLink* link, const Status& why) override;
  // OutLinkOwner
  void OnAnswerOnLoop(const PeerId& from, const Tag& tag, const Status& answer) override;
  void OnOutLinkClosedOnLoop(OutLink* link, const Status& why) override;

  const std::shared_ptr<int> alive_ = std::make_shared<int>();
  EventLoop* const loop_;
  TransportSet* const transports_;
  const Seconds connect_timeout_;
  const bool open_;

  // A notice of an epoch that has not begun here.
  struct Early {
    PeerId from;
    Tag tag;
    Status status;
  };

  uint32_t epoch_ = 0;
  std::vector<Early> early_;
  PeerList members_;
  RouterHandler* handler_ = nullptr;
  PullHandler* pulls_ = nullptr;
  std::function<void(uint32_t epoch)> broken_;
  Mailbox mailbox_;
  std::unordered_map<PeerId, PeerLinks, PeerIdHash> peers_;
  // They have been replaced, and are about to close.
  std::vector<std::shared_ptr<OutLink>> retired_out_;
  std::vector<std::shared_ptr<InLink>> retired_in_;

  bool closing_ = false;
  std::function<void()> closed_;
  Traffic::Bytes forgotten_;  // over connections with peers that are not members any more
};

}  // namespace kungfu
