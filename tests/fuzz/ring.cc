// Memory that the other process may change at any time: a ring is read, and written to, whatever is in it.

#include "ops/transport/shm/ring.h"

#include <sys/socket.h>

#include <vector>

#include "tests/fuzz/input.h"

namespace kungfu {
namespace {

constexpr size_t kCapacity = 4096;

// Takes half of the payloads where they lie.
class Receiver : public FrameReceiver, private Sink {
 public:
  Status OnFrameOnLoop(const FrameHeader& header, Sink** sink) override {
    is_lent_ = header.tag.part % 2 != 0;
    if (header.payload_size > 0) *sink = this;
    return OkStatus();
  }
  void OnFrameEndOnLoop(const FrameHeader&) override {}

 private:
  MutableBytes Reserve(size_t max) override {
    if (is_lent_) return {};
    place_.resize(std::min<size_t>(max, 100));
    return {place_.data(), place_.size()};
  }
  void Commit(size_t size) override { fuzz::Require(size <= place_.size(), "no more is read than there is room for"); }
  void Consume(ConstBytes view) override { sum_ += std::string(view.data, view.size).size(); }

  bool is_lent_ = false;
  std::vector<char> place_;
  size_t sum_ = 0;
};

void Try(fuzz::Input input) {
  alignas(kLine) static char memory[sizeof(RingControl) + kCapacity];
  static UniqueFd nobody(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0));
  std::memset(memory, 0, sizeof(memory));
  Bell bell(&nobody);
  const RingPlace place(memory, kCapacity);
  RingReader reader(place, &bell);
  RingWriter writer(place, &bell);
  Receiver receiver;
  FrameParser parser(&receiver);
  while (!input.over()) {
    const auto what = input.Number<uint8_t>() % 5;
    const auto number = input.Number<uint16_t>();
    // Mostly of whole lines, as a count must be.
    const uint64_t count = number % 256 * kLine + number / 256 % 8 / 7;
    if (what == 0) {
      place.control->written = count;
    } else if (what == 1) {
      place.control->read = count;
    } else if (what == 2) {
      const std::string bytes = input.Bytes(input.Number<uint8_t>());
      const size_t at = number % (kCapacity - 256);
      std::memcpy(place.data + at, bytes.data(), bytes.size());
    } else if (what == 3) {
      bool drained = false;
      if (!reader.Read(&parser, &drained).ok()) return;
    } else {
      std::string lines(kLine * (1 + number % 64), 'x');
      const iovec piece{lines.data(), lines.size()};
      if (!writer.Write(&piece, 1).ok()) return;
    }
  }
}

}  // namespace
}  // namespace kungfu

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kungfu::Try({data, size});
  return 0;
}
