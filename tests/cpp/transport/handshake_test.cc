#include "ops/transport/handshake.h"

#include <utility>

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

PeerId Peer(const char* text) {
  StatusOr<PeerId> peer = PeerId::Parse(text);
  EXPECT_OK(peer.status());
  return *peer;
}

const char kClient[] = "10.0.0.1:100", kServer[] = "[fd00::2]:200";

Credentials Of(const char* self, const std::string& secret = "secret", const std::string& job = "job") {
  return {Peer(self), job, secret};
}

// Gives `side` exactly what it wants of `*bytes`, as long as it wants something and there is enough.
Status Feed(Handshake* side, std::string* bytes, std::string* reply) {
  while (side->Wants() > 0 && bytes->size() >= side->Wants()) {
    const std::string message = bytes->substr(0, side->Wants());
    bytes->erase(0, message.size());
    KF_RETURN_IF_ERROR(side->Advance(message.data(), reply));
  }
  return OkStatus();
}

struct Outcome {
  Status client, server;
};

// Lets both talk until nobody has anything to say.
Outcome Talk(Handshake* client, Handshake* server) {
  Outcome outcome;
  std::string to_server = client->Opening(), to_client = server->Opening();
  while (!to_server.empty() || !to_client.empty()) {
    std::string from_server, from_client;
    if (outcome.server.ok()) outcome.server = Feed(server, &to_server, &from_server);
    to_server.clear();
    to_client += from_server;
    if (outcome.client.ok()) outcome.client = Feed(client, &to_client, &from_client);
    to_client.clear();
    to_server += from_client;
  }
  return outcome;
}

Credentials At(MeetingPlace place, const char* self) {
  Credentials credentials = Of(self);
  credentials.place = place;
  return credentials;
}

Outcome Talk(const Credentials& client, const PeerId& wanted, const Credentials& server) {
  return Talk(Handshake::Client(client, wanted).get(), Handshake::Server(server).get());
}

std::string HelloFor(const char* server) { return Handshake::Client(Of(kClient), Peer(server))->Opening(); }

KF_TEST(Handshake, IntroducesBothSides) {
  const auto client = Handshake::Client(Of(kClient), Peer(kServer));
  const auto server = Handshake::Server(Of(kServer));
  EXPECT_EQ(client->Opening().size(), 96u);
  const Outcome outcome = Talk(client.get(), server.get());
  EXPECT_OK(outcome.client);
  EXPECT_OK(outcome.server);
  EXPECT_EQ(client->Wants(), 0u);
  EXPECT_EQ(server->Wants(), 0u);
  EXPECT_EQ(client->remote().ToString(), kServer);
  EXPECT_EQ(server->remote().ToString(), kClient);
}

KF_TEST(Handshake, RefusesAnotherSecret) {
  const Outcome outcome = Talk(Of(kClient, "guess"), Peer(kServer), Of(kServer));
  EXPECT_EQ(outcome.client.code(), Code::kPermissionDenied);
  EXPECT_CONTAINS(outcome.client.message(), "KUNGFU_SECRET");
  EXPECT_CONTAINS(outcome.client.message(), kServer);
}

KF_TEST(Handshake, RefusesAnotherJobAndSaysSo) {
  const Outcome outcome = Talk(Of(kClient, "secret", "other"), Peer(kServer), Of(kServer));
  for (const Status& status : {outcome.client, outcome.server}) {
    EXPECT_EQ(status.code(), Code::kPermissionDenied);
    EXPECT_CONTAINS(status.message(), "another job");
  }
}

KF_TEST(Handshake, RefusesAPeerThatLooksForAnother) {
  const Outcome outcome = Talk(Of(kClient), Peer("10.0.0.9:9"), Of(kServer));
  EXPECT_EQ(outcome.client.code(), Code::kPermissionDenied);
  EXPECT_CONTAINS(outcome.client.message(), "another address");
  EXPECT_EQ(outcome.server.code(), Code::kPermissionDenied);
  EXPECT_CONTAINS(outcome.server.message(), "10.0.0.9:9");
}

const char kNeighbour[] = "10.0.0.1:101";

KF_TEST(Handshake, TellsBothPeersOfOneHostThatTheyDoNotMeet) {
  for (const auto& [a, b] :
       {std::pair(MeetingPlace::kTcp, MeetingPlace::kShm), std::pair(MeetingPlace::kShm, MeetingPlace::kUnix),
        std::pair(MeetingPlace::kAutoTcp, MeetingPlace::kAutoShm)}) {
    const auto client = Handshake::Client(At(a, kClient), Peer(kNeighbour));
    const auto server = Handshake::Server(At(b, kNeighbour));
    const Outcome outcome = Talk(client.get(), server.get());
    for (const Status& status : {outcome.client, outcome.server}) {
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_CONTAINS(status.message(), "KUNGFU_TRANSPORT is ");
      EXPECT_CONTAINS(status.message(), std::string(TransportAt(a)));
      EXPECT_CONTAINS(status.message(), std::string(TransportAt(b)));
      EXPECT_CONTAINS(status.message(), kClient);
      EXPECT_CONTAINS(status.message(), kNeighbour);
    }
    EXPECT_EQ(server->remote().ToString(), kClient);
    // Two hosts have nothing but TCP.
    const Outcome far = Talk(At(a, kClient), Peer(kServer), At(b, kServer));
    EXPECT_OK(far.client);
    EXPECT_OK(far.server);
  }
}

KF_TEST(Handshake, AsksForTheSamePlaceNotForTheSameWord) {
  for (const auto& [a, b] :
       {std::pair(MeetingPlace::kAutoShm, MeetingPlace::kShm), std::pair(MeetingPlace::kTcp, MeetingPlace::kAutoTcp)}) {
    const Outcome outcome = Talk(At(a, kClient), Peer(kNeighbour), At(b, kNeighbour));
    EXPECT_OK(outcome.client);
    EXPECT_OK(outcome.server);
  }
}

// Who searches wants to hear of a difference, and no connection: the server must not take it for one.
KF_TEST(Handshake, ASearchEndsWithADifferenceOrWithoutAProof) {
  const auto search = [](MeetingPlace place) { return Handshake::Search(At(place, kClient), Peer(kNeighbour)); };
  const auto different = search(MeetingPlace::kTcp), same = search(MeetingPlace::kShm);
  const Outcome outcome = Talk(different.get(), Handshake::Server(At(MeetingPlace::kShm, kNeighbour)).get());
  EXPECT_EQ(outcome.client.code(), Code::kInvalidArgument);
  EXPECT_EQ(outcome.server.code(), Code::kInvalidArgument);
  const auto server = Handshake::Server(At(MeetingPlace::kShm, kNeighbour));
  EXPECT_EQ(Talk(same.get(), server.get()).client.code(), Code::kUnavailable);
  EXPECT_NE(server->Wants(), 0u);
}

KF_TEST(Handshake, RefusesAnotherVersionAndSaysSo) {
  const auto client = Handshake::Client(Of(kClient), Peer(kServer));
  std::string hello = client->Opening(), reply;
  hello[8] = 99;
  const auto server = Handshake::Server(Of(kServer));
  const Status status = Feed(server.get(), &hello, &reply);
  EXPECT_EQ(status.code(), Code::kPermissionDenied);
  EXPECT_CONTAINS(status.message(), "version 99");
  EXPECT_EQ(reply.size(), 64u);
  EXPECT_EQ(server->Wants(), 0u);
}

KF_TEST(Handshake, LeavesAWrongMagicWithoutAnAnswer) {
  for (const std::string& text : {std::string("GET / HTTP/1.1\r\n"), std::string(96, '\0'), std::string(96, '\xff')}) {
    const auto server = Handshake::Server(Of(kServer));
    std::string bytes = text, reply;
    EXPECT_EQ(Feed(server.get(), &bytes, &reply).code(), Code::kPermissionDenied);
    EXPECT_EQ(reply, "");
    EXPECT_EQ(server->Wants(), 0u);
  }
}

KF_TEST(Handshake, ReadsAtMost128BytesBeforeAProof) {
  const auto server = Handshake::Server(Of(kServer));
  std::string hello = HelloFor(kServer), reply;
  size_t read = 0;
  while (server->Wants() > 0 && !hello.empty()) {
    read += server->Wants();
    std::string message = hello.substr(0, server->Wants());
    hello.erase(0, message.size());
    EXPECT_OK(server->Advance(message.data(), &reply));
  }
  EXPECT_EQ(read + server->Wants(), 128u);
}

// Somebody who has heard a whole handshake says the client's part again.
KF_TEST(Handshake, RefusesAReplay) {
  const auto client = Handshake::Client(Of(kClient), Peer(kServer));
  const auto server = Handshake::Server(Of(kServer));
  std::string hello = client->Opening(), challenge, proof, verdict;
  const std::string heard_hello = hello;
  EXPECT_OK(Feed(server.get(), &hello, &challenge));
  EXPECT_OK(Feed(client.get(), &challenge, &proof));
  const std::string heard_proof = proof;
  EXPECT_OK(Feed(server.get(), &proof, &verdict));

  const auto again = Handshake::Server(Of(kServer));
  std::string replay = heard_hello + heard_proof, reply;
  EXPECT_EQ(Feed(again.get(), &replay, &reply).code(), Code::kPermissionDenied);
}

// Somebody without the secret gives the server its own proof back.
KF_TEST(Handshake, RefusesAReflectedProof) {
  const auto server = Handshake::Server(Of(kServer));
  std::string hello = HelloFor(kServer), challenge, verdict;
  EXPECT_OK(Feed(server.get(), &hello, &challenge));
  std::string proof = challenge.substr(32);
  EXPECT_EQ(Feed(server.get(), &proof, &verdict).code(), Code::kPermissionDenied);
  EXPECT_EQ(verdict.size(), 4u);
  EXPECT_NE(verdict, std::string(4, '\0'));
}

// Somebody sits where a peer should be, and lets another peer of the job answer the challenge for it.
KF_TEST(Handshake, GivesNoProofForAHelloToAnotherPeer) {
  const auto client = Handshake::Client(Of(kClient), Peer("10.0.0.9:9"));
  const auto other = Handshake::Server(Of(kServer));
  std::string hello = client->Opening(), challenge, proof;
  EXPECT_FALSE(Feed(other.get(), &hello, &challenge).ok());
  EXPECT_EQ(Feed(client.get(), &challenge, &proof).code(), Code::kPermissionDenied);
  EXPECT_EQ(proof, "");
}

KF_TEST(Handshake, RefusesEveryChangedBit) {
  for (size_t bit = 0; bit < 64 * 8; ++bit) {
    const auto client = Handshake::Client(Of(kClient), Peer(kServer));
    const auto server = Handshake::Server(Of(kServer));
    std::string hello = client->Opening(), challenge, proof;
    EXPECT_OK(Feed(server.get(), &hello, &challenge));
    challenge[bit / 8] = static_cast<char>(challenge[bit / 8] ^ (1 << bit % 8));
    EXPECT_EQ(Feed(client.get(), &challenge, &proof).code(), Code::kPermissionDenied);
  }
}

KF_TEST(Handshake, WaitsForWhatIsTruncated) {
  const std::string hello = HelloFor(kServer);
  for (const size_t size : {0, 7, 8, 95}) {
    const auto server = Handshake::Server(Of(kServer));
    std::string part = hello.substr(0, size), reply;
    EXPECT_OK(Feed(server.get(), &part, &reply));
    EXPECT_EQ(reply, "");
    EXPECT_NE(server->Wants(), 0u);
  }
}

KF_TEST(Handshake, BelievesNoVerdictButOk) {
  const auto client = Handshake::Client(Of(kClient), Peer(kServer));
  const auto server = Handshake::Server(Of(kServer));
  std::string hello = client->Opening(), challenge, proof;
  EXPECT_OK(Feed(server.get(), &hello, &challenge));
  EXPECT_OK(Feed(client.get(), &challenge, &proof));
  std::string verdict("\x07\0\0\0", 4), nothing;
  EXPECT_EQ(Feed(client.get(), &verdict, &nothing).code(), Code::kPermissionDenied);
}

}  // namespace
}  // namespace kungfu
