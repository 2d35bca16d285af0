#include "ops/collective/ways.h"

#include <set>

#include "ops/collective/exchange_mover.h"
#include "ops/collective/notes.h"

namespace kungfu {

Way Ways::For(uint64_t bytes, bool grows) const {
  if (meeting > 0 && bytes >= direct_bytes) {
    if (meeting == size) return Way::kDirect;
    if (choice.For(bytes, grows) == StrategyName::kHierarchy) return Way::kHierarchy;
  }
  const bool in_messages = exchanges && bytes * (size - 1) <= kMostExchanged;
  const bool in_notes = meeting == size && bytes <= Notes::kMost;
  return bytes < direct_bytes && (in_messages || in_notes) ? Way::kExchange : Way::kGraphs;
}

std::string Ways::Describe(uint64_t bytes) const {
  switch (For(bytes)) {
    case Way::kExchange:
      return "from every peer to every other";
    case Way::kDirect:
      return "in memory that all peers map";
    case Way::kHierarchy:
      return "along HIERARCHY, and within a host in memory that its peers map";
    case Way::kGraphs:
      break;
  }
  return std::string("along ") + Name(choice.For(bytes));
}

// All sizes go as the largest one of these that they reach.
std::string Ways::ToString() const {
  std::set<uint64_t> starts = {0, direct_bytes, Notes::kMost + 1, kMostExchanged / (size - 1) + 1};
  for (const Choice::Entry& entry : choice.entries) starts.insert(entry.from);
  std::string text = "all-reduces go ", way = Describe(0);
  for (const uint64_t start : starts) {
    const std::string next = Describe(start);
    if (next == way) continue;
    text += way + " up to " + std::to_string(start - 1) + " bytes, then ";
    way = next;
  }
  if (choice.growing == 0 || choice.For(kNever, true) == choice.Last()) return text + way;
  return text + way + "; large sums of 16-bit types along " + Name(choice.For(kNever, true));
}

}  // namespace kungfu
