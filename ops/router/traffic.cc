#include "ops/router/traffic.h"

#include <string_view>

#include "ops/base/logging.h"

namespace kungfu {
namespace {

TrafficWay WayOf(const Connection& connection) {
  const std::string_view transport = connection.transport_name();
  if (transport == "shm") return TrafficWay::kSharedMemory;
  if (transport == "unix") return TrafficWay::kUnix;
  KF_CHECK(transport == "tcp") << "bytes of an unknown transport";
  return TrafficWay::kTcp;
}

}  // namespace

Traffic::Bytes& Traffic::Bytes::operator+=(const Bytes& other) {
  sent += other.sent;
  received += other.received;
  return *this;
}

Traffic::Bytes Traffic::sum() const {
  Bytes sum;
  for (const Bytes& bytes : by_way) sum += bytes;
  return sum;
}

void Traffic::Add(const Connection& connection) {
  by(WayOf(connection)) += {connection.bytes_sent(), connection.bytes_received()};
}

}  // namespace kungfu
