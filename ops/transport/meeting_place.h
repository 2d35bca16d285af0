// The places where peers of one host look for each other: KUNGFU_TRANSPORT names one, or leaves the choice to us.

#pragma once

#include <string>

#include "ops/base/status.h"
#include "ops/plan/peer_id.h"

namespace kungfu {

// As peers say it in their handshakes (handshake.h): another letter is another protocol.
enum class MeetingPlace : char {
  kAutoShm = 'm',
  kAutoTcp = 'p',
  kShm = 's',
  kUnix = 'u',
  kTcp = 't',
};
inline constexpr MeetingPlace kMeetingPlaces[] = {MeetingPlace::kAutoShm, MeetingPlace::kAutoTcp, MeetingPlace::kShm,
                                                  MeetingPlace::kUnix, MeetingPlace::kTcp};

// The name of the transport: "shm", "unix" or "tcp".
const char* TransportAt(MeetingPlace place);
// Whether two peers find each other. If not: kInvalidArgument, with what each was told.
Status CheckMeeting(const PeerId& a, MeetingPlace of_a, const PeerId& b, MeetingPlace of_b);

}  // namespace kungfu
