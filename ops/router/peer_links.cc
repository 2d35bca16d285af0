#include "ops/router/peer_links.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace kungfu {

uint64_t PeerLinks::out_bytes_sent() const { return out && out->connected() ? out->connection()->bytes_sent() : 0; }

Traffic PeerLinks::OverConnections() const {
  Traffic traffic = past_;
  if (is_out_connected()) traffic.Add(*out->connection());
  for (const auto& link : in) traffic.Add(*link->connection());
  return traffic;
}

Traffic PeerLinks::traffic() const {
  Traffic traffic = OverConnections();
  traffic.by(TrafficWay::kSharedMemory) += {in_memory, in_memory};
  if (out) {
    traffic.messages_sent += out->messages_sent();
    traffic.payload_sent += out->payload_sent();
  }
  return traffic;
}

// A peer that is busy taking data has no time for answers, and lives; that it is sent questions is no sign of life.
Clock::time_point PeerLinks::LastHeard() {
  const uint64_t sent = out_bytes_sent();
  if (sent - sent_ > kMaxEagerSize) last_heard_ = Clock::now();
  sent_ = sent;
  Clock::time_point last = last_heard_;
  for (const auto& link : in) last = std::max(last, link->last_heard());
  return out ? std::max(last, out->last_heard()) : last;
}

void PeerLinks::NoteReason(const Status& reason) {
  if (why.ok() || has_left()) why = reason;
}

void PeerLinks::CountOut() {
  if (out->connected()) past_.Add(*out->connection());
}

std::unique_ptr<OutLink> PeerLinks::TakeOut() {
  if (is_out_open()) CountOut();
  past_.messages_sent += out->messages_sent();
  past_.payload_sent += out->payload_sent();
  last_heard_ = std::max(last_heard_, out->last_heard());
  sent_ = 0;
  return std::move(out);
}

void PeerLinks::Count(const InLink& link) {
  past_.Add(*link.connection());
  last_heard_ = std::max(last_heard_, link.last_heard());
}

std::unique_ptr<InLink> PeerLinks::TakeIn(InLink* link) {
  Count(*link);
  const auto at = std::find_if(in.begin(), in.end(), [&](const auto& other) { return other.get() == link; });
  std::unique_ptr<InLink> taken = std::move(*at);
  in.erase(at);
  return taken;
}

std::vector<std::unique_ptr<InLink>> PeerLinks::TakeOld() {
  const auto is_new = [&](const auto& link) { return link->generation().value_or(generation) >= generation; };
  const auto old = std::stable_partition(in.begin(), in.end(), is_new);
  std::vector<std::unique_ptr<InLink>> taken(std::make_move_iterator(old), std::make_move_iterator(in.end()));
  for (const auto& link : taken) Count(*link);
  in.erase(old, in.end());
  return taken;
}

}  // namespace kungfu
