// A stranger without the secret, as the client or as the server: nobody takes it for a peer.

#include "ops/transport/handshake.h"

#include "tests/fuzz/input.h"

namespace kungfu {
namespace {

PeerId PeerOf(uint16_t port) { return *PeerId::Parse("10.0.0.1:" + std::to_string(port)); }

void Try(fuzz::Input input) {
  static const Credentials credentials{PeerOf(1), "job", "a secret"};
  static const std::string hello = Handshake::Client({PeerOf(2), "job", "another"}, PeerOf(1))->Opening();
  const int side = input.Number<uint8_t>() % 4;
  const std::unique_ptr<Handshake> handshake = side == 0   ? Handshake::Client(credentials, PeerOf(2))
                                               : side == 1 ? Handshake::Search(credentials, PeerOf(2))
                                                           : Handshake::Server(credentials);
  std::string said = side == 3 ? hello : "", reply;
  said += input.Rest();
  while (handshake->Wants() > 0) {
    const size_t wants = handshake->Wants();
    fuzz::Require(wants <= 128, "little is read before the proof");
    said.resize(std::max(wants, said.size()));
    if (!handshake->Advance(said.data(), &reply).ok()) return;
    said.erase(0, wants);
  }
  fuzz::Require(false, "a stranger is no peer");
}

}  // namespace
}  // namespace kungfu

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kungfu::Try({data, size});
  return 0;
}
