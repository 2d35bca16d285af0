// Proves the identity of the other end: a mutual challenge, HMAC-SHA256 over everything that was said.
//
//   client -> server   hello     := magic[8] version:u32 job[16] client_peer[18] server_peer[18] nonce[32]    (96 B)
//   server -> client   challenge := nonce[32] proof[32]                                                       (64 B)
//   client -> server   proof     := proof[32]                                                                 (32 B)
//   server -> client   verdict   := code:u32                                                                  (4 B)
//
//   proof(side) = HMAC(secret, side || hello || challenge.nonce)
//   side = 'C' place, the client; 'S' place, the server that accepts the hello; else why it does not: 'V' the version,
//          'J' the job, 'P' it is another peer than the one that was asked for
//   place = a letter of meeting_place.h: where this peer looks for those of its host
//   job = the first 16 bytes of SHA-256 of the job id; peer = address[16] port:u16
//
// The server reads no more than 128 bytes before the client has proved that it knows the secret. A magic that is
// wrong ends the connection without an answer. A refusal is a proof too. It cannot be forged, it tells nothing to a
// process without the secret, and no 'S' proof exists for a hello that was meant for another peer. The hello and the
// challenge keep their layout in all versions.
//
// Two peers of one host that look for each other at different places learn it from each other's proofs. Both end the
// handshake with kInvalidArgument, so one connection tells both.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ops/base/status.h"
#include "ops/plan/peer_id.h"
#include "ops/transport/meeting_place.h"

namespace kungfu {

inline constexpr uint32_t kProtocolVersion = 2;

struct Credentials {
  PeerId self;
  std::string job_id;
  std::string secret;
  MeetingPlace place = MeetingPlace::kAutoTcp;
};

// One side of a handshake as a pure state machine: bytes in, bytes out. No socket, no clock.
class Handshake {
 public:
  static std::unique_ptr<Handshake> Client(const Credentials& credentials, const PeerId& server);
  // As Client, at a place where we do not expect the peer: finds out whether it was told that one. It never succeeds:
  // kUnavailable if both were told the same.
  static std::unique_ptr<Handshake> Search(const Credentials& credentials, const PeerId& server);
  static std::unique_ptr<Handshake> Server(const Credentials& credentials);
  virtual ~Handshake() = default;

  // How many bytes it needs next; 0 when it is over.
  virtual size_t Wants() const = 0;
  // REQUIRES: exactly Wants() bytes. Appends the bytes to send to `*reply`. An error ends the handshake; `*reply`
  // should still be sent (the verdict).
  virtual Status Advance(const char* bytes, std::string* reply) = 0;
  // The first bytes of the client; empty for the server.
  virtual std::string Opening() = 0;
  // REQUIRES: Wants() == 0 and no error but kInvalidArgument: it has proved its identity.
  virtual PeerId remote() const = 0;
};

}  // namespace kungfu
