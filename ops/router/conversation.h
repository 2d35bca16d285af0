// The messages of one operation, which a mover sends and receives by rank.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/router/router.h"

namespace kungfu {

// Lives on the event loop's thread.
class Conversation {
 public:
  // `ranks` are the peers of the session.
  Conversation(Router* router, const PeerList& ranks, OperationId id, const Signature& signature,
               ConversationHandler* handler);
  ~Conversation();

  // Begins to match messages. Returns how a message that is already here contradicts the signature.
  std::unique_ptr<Mailbox::Mismatch> OpenOnLoop();

  // The bytes must stay until `done`, which is called later, never inside the call.
  void SendOnLoop(int to, uint32_t part, Payload payload, StatusCallback done);
  // As Mailbox::Receive: true if the message was here; otherwise `done` is called later.
  bool ReceiveOnLoop(int from, uint32_t part, uint64_t size, Sink* sink, StatusCallback done);

  // Bytes of the operation went to this rank without a message, and as many came from it: they count as its traffic.
  void CountInMemoryOnLoop(int rank, uint64_t bytes);

  // Ranks of whom something is awaited.
  std::vector<int> AwaitedOnLoop() const;

  // Ends it: nothing is delivered any more, nor are callbacks of sends and receives called. `closed` is called later,
  // when no buffer of the operation is used any more. A peer that takes none of its messages within `grace` is given up
  // for that.
  void CloseOnLoop(Seconds grace, std::function<void()> closed);

  const OperationId& id() const { return id_; }

 private:
  struct Sends {
    bool open = true;
    std::vector<int> in_flight;  // per rank
    int total = 0;
    std::function<void()> closed;
  };

  static void Watch(Router* router, const std::shared_ptr<Sends>& sends, const std::vector<PeerId>& peers,
                    Seconds grace, const std::vector<uint64_t>& before);
  std::string NameOf(int rank) const;

  Router* const router_;
  const PeerList& ranks_;
  const OperationId id_;
  const Signature signature_;
  ConversationHandler* const handler_;
  const std::shared_ptr<Sends> sends_;
  bool opened_ = false;
};

}  // namespace kungfu
