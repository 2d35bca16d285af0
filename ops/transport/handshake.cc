#include "ops/transport/handshake.h"

#include <cstring>

#include "ops/base/docs_link.h"
#include "ops/base/hmac.h"
#include "ops/base/logging.h"
#include "ops/transport/little_endian.h"

namespace kungfu {
namespace {

// Not text, so that no line-based protocol begins like it.
constexpr char kMagic[8] = {'K', 'U', 'N', 'G', 'F', 'U', '\x1a', '\n'};

constexpr size_t kJobSize = 16, kPeerSize = 18, kNonceSize = 32, kProofSize = sizeof(Sha256Digest);
constexpr size_t kVersionAt = sizeof(kMagic), kJobAt = kVersionAt + sizeof(uint32_t), kClientAt = kJobAt + kJobSize,
                 kServerAt = kClientAt + kPeerSize, kHelloNonceAt = kServerAt + kPeerSize,
                 kHelloSize = kHelloNonceAt + kNonceSize;
constexpr size_t kChallengeSize = kNonceSize + kProofSize;
constexpr size_t kVerdictSize = sizeof(uint32_t);
static_assert(kHelloSize == 96 && kChallengeSize == 64);

enum Side : char {
  kClient = 'C',
  kServer = 'S',
  kOtherVersion = 'V',
  kOtherJob = 'J',
  kOtherPeer = 'P',
};

std::string JobDigest(const std::string& job_id) {
  Sha256 sha;
  sha.Update(job_id.data(), job_id.size());
  const Sha256Digest digest = sha.Finish();
  return std::string(reinterpret_cast<const char*>(digest.data()), kJobSize);
}

std::string EncodePeer(const PeerId& peer) {
  std::string bytes(reinterpret_cast<const char*>(peer.host.bytes().data()), peer.host.bytes().size());
  char port[sizeof(uint16_t)];
  PutLittleEndian(port, peer.port);
  return bytes.append(port, sizeof(port));
}

PeerId DecodePeer(const char* bytes) {
  std::array<uint8_t, 16> address;
  std::memcpy(address.data(), bytes, address.size());
  return PeerId{HostAddress(address), GetLittleEndian<uint16_t>(bytes + address.size())};
}

std::string Nonce() {
  std::string nonce(kNonceSize, '\0');
  FillRandom(&nonce[0], nonce.size());
  return nonce;
}

std::string At(Side side, MeetingPlace place) { return {side, static_cast<char>(place)}; }

Sha256Digest Proof(const std::string& secret, const std::string& side, const std::string& hello,
                   const std::string& nonce) {
  const std::string said = side + hello + nonce;
  return HmacSha256(secret, said.data(), said.size());
}

void Append(std::string* out, const Sha256Digest& proof) {
  out->append(reinterpret_cast<const char*>(proof.data()), proof.size());
}

bool IsProof(const char* bytes, const Sha256Digest& expected) {
  Sha256Digest proof;
  std::memcpy(proof.data(), bytes, proof.size());
  return EqualInConstantTime(proof, expected);
}

class ClientHandshake : public Handshake {
 public:
  ClientHandshake(const Credentials& credentials, const PeerId& server, bool searches)
      : credentials_(credentials), server_(server), searches_(searches), hello_(kMagic, sizeof(kMagic)) {
    char version[sizeof(uint32_t)];
    PutLittleEndian(version, kProtocolVersion);
    hello_.append(version, sizeof(version));
    hello_ += JobDigest(credentials.job_id) + EncodePeer(credentials.self) + EncodePeer(server) + Nonce();
  }

  size_t Wants() const override { return wants_; }
  std::string Opening() override { return hello_; }
  PeerId remote() const override { return server_; }

  Status Advance(const char* bytes, std::string* reply) override {
    KF_CHECK(wants_ > 0) << "a handshake that is over";
    const Status status = wants_ == kChallengeSize ? OnChallenge(bytes, reply) : OnVerdict(bytes);
    if (!status.ok()) wants_ = 0;
    return status;
  }

 private:
  Status OnChallenge(const char* bytes, std::string* reply) {
    const std::string nonce(bytes, kNonceSize);
    const auto proves = [&](const std::string& side) {
      return IsProof(bytes + kNonceSize, Proof(credentials_.secret, side, hello_, nonce));
    };
    for (const MeetingPlace place : kMeetingPlaces) {
      if (!proves(At(kServer, place))) continue;
      const Status meets = CheckMeeting(credentials_.self, credentials_.place, server_, place);
      if (meets.ok() && searches_) return UnavailableError("it does not listen at the place of both yet");
      Append(reply, Proof(credentials_.secret, At(kClient, credentials_.place), hello_, nonce));
      wants_ = kVerdictSize;
      return meets;
    }
    if (proves({kOtherVersion})) {
      return Refused("it speaks another protocol version than ours, " + std::to_string(kProtocolVersion) +
                     ": install the same kungfu_tf on every host");
    }
    if (proves({kOtherJob})) return Refused("it belongs to another job than ours, '" + credentials_.job_id + "'");
    if (proves({kOtherPeer})) return Refused("the peer that listens there has another address");
    return Refused(
        Linked("secret-differs",
               "it does not know our secret: another job or program listens there, or KUNGFU_SECRET differs"));
  }

  Status OnVerdict(const char* bytes) {
    const auto code = GetLittleEndian<uint32_t>(bytes);
    wants_ = 0;
    return code == 0 ? OkStatus() : Refused("it did not accept our proof, code " + std::to_string(code));
  }

  Status Refused(const std::string& why) const {
    return PermissionDeniedError("handshake with " + server_.ToString() + ": " + why);
  }

  const Credentials credentials_;
  const PeerId server_;
  const bool searches_;
  std::string hello_;
  size_t wants_ = kChallengeSize;
};

class ServerHandshake : public Handshake {
 public:
  explicit ServerHandshake(const Credentials& credentials) : credentials_(credentials) {}

  size_t Wants() const override { return wants_; }
  std::string Opening() override { return ""; }
  PeerId remote() const override { return client_; }

  Status Advance(const char* bytes, std::string* reply) override {
    KF_CHECK(wants_ > 0) << "a handshake that is over";
    const Status status = hello_.empty()               ? OnMagic(bytes)
                          : hello_.size() < kHelloSize ? OnHello(bytes, reply)
                                                       : OnProof(bytes, reply);
    if (!status.ok()) wants_ = 0;
    return status;
  }

 private:
  // Read separately, so that a process that is no peer is rejected by its first bytes, however few it sends.
  Status OnMagic(const char* bytes) {
    if (std::memcmp(bytes, kMagic, sizeof(kMagic)) != 0) {
      return PermissionDeniedError("handshake: what has connected is not a peer");
    }
    hello_.assign(bytes, sizeof(kMagic));
    wants_ = kHelloSize - sizeof(kMagic);
    return OkStatus();
  }

  Status OnHello(const char* bytes, std::string* reply) {
    hello_.append(bytes, wants_);
    client_ = DecodePeer(&hello_[kClientAt]);
    nonce_ = Nonce();
    const Side side = Answer();
    *reply += nonce_;
    const std::string said = side == kServer ? At(side, credentials_.place) : std::string{side};
    Append(reply, Proof(credentials_.secret, said, hello_, nonce_));
    wants_ = kProofSize;
    switch (side) {
      case kOtherVersion:
        return Refused("it speaks protocol version " + std::to_string(GetLittleEndian<uint32_t>(&hello_[kVersionAt])) +
                       ", we speak " + std::to_string(kProtocolVersion));
      case kOtherJob:
        return Refused("it belongs to another job than ours, '" + credentials_.job_id + "'");
      case kOtherPeer:
        return Refused("it looks for " + DecodePeer(&hello_[kServerAt]).ToString() + ", we are " +
                       credentials_.self.ToString());
      default:
        return OkStatus();
    }
  }

  Side Answer() const {
    if (GetLittleEndian<uint32_t>(&hello_[kVersionAt]) != kProtocolVersion) return kOtherVersion;
    if (hello_.compare(kJobAt, kJobSize, JobDigest(credentials_.job_id)) != 0) return kOtherJob;
    if (DecodePeer(&hello_[kServerAt]) != credentials_.self) return kOtherPeer;
    return kServer;
  }

  Status OnProof(const char* bytes, std::string* reply) {
    const Status status = Judge(bytes);
    char verdict[kVerdictSize];
    PutLittleEndian(verdict, static_cast<uint32_t>(status.code()));
    reply->append(verdict, sizeof(verdict));
    wants_ = 0;
    return status;
  }

  Status Judge(const char* proof) const {
    for (const MeetingPlace place : kMeetingPlaces) {
      if (IsProof(proof, Proof(credentials_.secret, At(kClient, place), hello_, nonce_))) {
        return CheckMeeting(credentials_.self, credentials_.place, client_, place);
      }
    }
    return Refused("it does not know our secret");
  }

  Status Refused(const std::string& why) const {
    return PermissionDeniedError("handshake with " + client_.ToString() + ": " + why);
  }

  const Credentials credentials_;
  std::string hello_;
  std::string nonce_;
  PeerId client_;
  size_t wants_ = sizeof(kMagic);
};

}  // namespace

std::unique_ptr<Handshake> Handshake::Client(const Credentials& credentials, const PeerId& server) {
  return std::make_unique<ClientHandshake>(credentials, server, /*searches=*/false);
}

std::unique_ptr<Handshake> Handshake::Search(const Credentials& credentials, const PeerId& server) {
  return std::make_unique<ClientHandshake>(credentials, server, /*searches=*/true);
}

std::unique_ptr<Handshake> Handshake::Server(const Credentials& credentials) {
  return std::make_unique<ServerHandshake>(credentials);
}

}  // namespace kungfu
