// The router's connections with one peer, and what is known of those that have ended.
//
// Everything is called on the event loop's thread.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/base/deadline.h"
#include "ops/base/status.h"
#include "ops/router/in_link.h"
#include "ops/router/out_link.h"
#include "ops/router/traffic.h"

namespace kungfu {

struct PeerLinks {
  std::unique_ptr<OutLink> out;             // ours
  std::vector<std::unique_ptr<InLink>> in;  // which the peer has opened, and which are not over
  uint32_t generation = 0;                  // of the connections; those of others do not count
  Status why;                               // of the first connection that ended; a reason goes before a goodbye
  Status lost;                              // not OK: all are over
  bool parted = false;                      // a member of an epoch that is over
  uint64_t in_memory = 0;                   // bytes that went each way without messages

  // The peer has said goodbye, and no connection has ended for another reason.
  bool has_left() const { return why.code() == Code::kCancelled; }
  // Ours is not over. It may not be connected yet.
  bool is_out_open() const { return out && out->closed().ok(); }
  bool is_out_connected() const { return is_out_open() && out->connected(); }
  // There is no connection, nor will there be one.
  bool is_over() const { return in.empty() && !is_out_open(); }
  // There is or was one.
  bool connected() const { return (out && out->connected()) || !in.empty(); }
  // Over our connection of now.
  uint64_t out_bytes_sent() const;
  // Over all connections, past ones, too; the latter with what went in memory, and what the messages were.
  Traffic::Bytes bytes() const { return OverConnections().sum(); }
  Traffic traffic() const;
  size_t num_connections() const { return in.size() + (is_out_connected() ? 1 : 0); }

  // The time of the last sign of life.
  Clock::time_point LastHeard();
  // A connection has ended, or is about to.
  void NoteReason(const Status& reason);
  // Ours has ended: what it carried is counted. REQUIRES: there is one.
  void CountOut();

  // These give up what they return. What it carried and heard is counted. REQUIRES: it is here.
  std::unique_ptr<OutLink> TakeOut();
  std::unique_ptr<InLink> TakeIn(InLink* link);
  // Those of earlier generations.
  std::vector<std::unique_ptr<InLink>> TakeOld();

 private:
  Traffic OverConnections() const;
  void Count(const InLink& link);

  Traffic past_;                    // over connections that have ended
  Clock::time_point last_heard_{};  // the same, and by what the peer took
  uint64_t sent_ = 0;               // bytes over our connection, when it was looked
};

}  // namespace kungfu
