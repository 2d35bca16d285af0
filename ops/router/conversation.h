// The messages of one operation, which a mover sends and receives by rank.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/router/router.h"

namespace kungfu {

// Told when a message contradicts the operation that it belongs to.
class ConversationHandler {
 public:
  virtual ~ConversationHandler() = default;
  virtual void OnMismatchOnLoop(const PeerId& from, const std::string& difference) = 0;
};

// Lives on the event loop's thread.
class Conversation : private MailboxUser {
 public:
  // `ranks` are the peers of the session.
  Conversation(Router* router, const PeerList& ranks, OperationId id, const Signature& signature,
               ConversationHandler* handler);
  ~Conversation() override;

  // Begins to match messages. Returns how a message that is already here contradicts the signature.
  std::unique_ptr<Mailbox::Mismatch> OpenOnLoop();

  // Returns true if the message has been sent; `done` is then not called. Otherwise the bytes must stay until `done`,
  // which is called later.
  bool SendOnLoop(int to, uint32_t part, Payload payload, StatusCallback done);
  // As Mailbox::Receive: true if the message was here; otherwise `done` is called later.
  bool ReceiveOnLoop(int from, uint32_t part, uint64_t size, Sink* sink, StatusCallback done);

  // For who awaits a peer's word by another way: whether a message has come, which was not asked for, and how many
  // peers were lost so far, of all. To receive a message of a lost one fails.
  bool HasMessagesOnLoop() const;
  uint64_t LossesOnLoop() const;

  // Bytes of the operation went to this rank without a message, and as many came from it: they count as its traffic.
  void CountInMemoryOnLoop(int rank, uint64_t bytes);

  // Ranks of whom something is awaited.
  std::vector<int> AwaitedOnLoop() const;

  // Ends it: nothing is delivered any more, nor are callbacks of sends and receives called. `closed` is called later,
  // when no buffer of the operation is used any more. A peer that takes none of its messages within `grace` is given up
  // for that.
  void CloseOnLoop(Seconds grace, std::function<void()> closed);

  // Ends it when all is sent and received.
  void EndOnLoop();
  // Makes it the one of a later operation of the name, which differs in number and step alone, and can be opened.
  // REQUIRES: EndOnLoop was called.
  void RepeatOnLoop(uint64_t number, uint64_t step);

  const OperationId& id() const { return IdOf(header_.tag); }
  const Signature& signature() const { return header_.signature; }

 private:
  struct Sends {
    bool open = true;
    std::vector<int> in_flight;  // per rank
    int total = 0;
    std::function<void()> closed;
  };

  static void Watch(Router* router, const std::shared_ptr<Sends>& sends, const std::vector<PeerId>& peers,
                    Seconds grace, const std::vector<uint64_t>& before);
  void CloseBox();
  std::string NameOf(int rank) const;

  // MailboxUser
  void OnMismatchOnLoop(const PeerId& from, const std::string& difference) override;
  Status LossOnLoop(const PeerId& from, const Status& why) const override;

  Router* const router_;
  const PeerList& ranks_;
  FrameHeader header_;  // of the messages that are sent; they differ in part and size
  ConversationHandler* const handler_;
  const std::shared_ptr<Sends> sends_;
  std::vector<uint64_t*> in_memory_;  // by rank: the router's count of bytes; null where none was counted yet
  Mailbox::Box* box_ = nullptr;       // while it is open, or rests
  bool is_open_ = false;
};

}  // namespace kungfu
