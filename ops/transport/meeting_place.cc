#include "ops/transport/meeting_place.h"

#include <cstring>

#include "ops/base/docs_link.h"
#include "ops/base/logging.h"

namespace kungfu {
namespace {

// The user's setting, and the consequence.
const char* Told(MeetingPlace place) {
  switch (place) {
    case MeetingPlace::kAutoShm:
      return "auto (shm)";
    case MeetingPlace::kAutoTcp:
      return "auto (tcp, for KUNGFU_SOCKET_DIR is not set)";
    default:
      return TransportAt(place);
  }
}

}  // namespace

const char* TransportAt(MeetingPlace place) {
  switch (place) {
    case MeetingPlace::kAutoShm:
    case MeetingPlace::kShm:
      return "shm";
    case MeetingPlace::kUnix:
      return "unix";
    case MeetingPlace::kAutoTcp:
    case MeetingPlace::kTcp:
      return "tcp";
  }
  KF_CHECK(false) << "no meeting place";
  return "";
}

// Between hosts there is but TCP.
Status CheckMeeting(const PeerId& a, MeetingPlace of_a, const PeerId& b, MeetingPlace of_b) {
  if (a.host != b.host || std::strcmp(TransportAt(of_a), TransportAt(of_b)) == 0) return OkStatus();
  return InvalidArgumentError(Linked(
      "transport-differs", std::string("KUNGFU_TRANSPORT is ") + Told(of_a) + " at " + a.ToString() + " and " +
                               Told(of_b) + " at " + b.ToString() + ": peers of one host must be told the same"));
}

}  // namespace kungfu
