// Texts that people, launchers and other hosts write: what is understood means what it says.

#include "ops/plan/peer_list.h"
#include "ops/plan/strategy.h"
#include "tests/fuzz/input.h"

namespace kungfu {
namespace {

template <typename T>
void ExpectSame(const StatusOr<T>& parsed) {
  if (!parsed.ok()) return;
  const std::string text = parsed->ToString();
  const StatusOr<T> again = T::Parse(text);
  fuzz::Require(again.ok() && again->ToString() == text, "what is written can be read");
}

void Try(const std::string& text) {
  ExpectSame(HostAddress::Parse(text));
  ExpectSame(PeerId::Parse(text));
  const StatusOr<PeerList> peers = PeerList::Parse(text);
  if (peers.ok()) fuzz::Require(peers->size() > 0, "a list of peers names one");
  ExpectSame(peers);
  const StatusOr<StrategyName> strategy = ParseStrategy(text);
  if (strategy.ok()) fuzz::Require(!StrategySpec(*strategy).ToString().empty(), "a strategy has a name");
}

}  // namespace
}  // namespace kungfu

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kungfu::Try(kungfu::fuzz::Input(data, size).Rest());
  return 0;
}
