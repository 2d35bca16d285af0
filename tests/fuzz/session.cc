// A peer that knows the secret, and sends frames in any order while operations are opened, awaited and closed here. It
// costs its connection, and no message reaches an operation that it does not fit.

#include <future>
#include <map>
#include <memory>

#include "ops/router/credit.h"
#include "ops/router/in_link.h"
#include "ops/transport/event_loop.h"
#include "tests/fuzz/input.h"

namespace kungfu {
namespace {

class Unsent : public Connection {
 public:
  StatusCallback* SendOnLoop(const FrameHeader&, Payload) override { return nullptr; }
  void CloseOnLoop(Deadline) override {}
  void BreakOnLoop(const Status&) override {}
  const PeerId& remote() const override { return remote_; }
  const char* transport_name() const override { return "none"; }
  uint64_t bytes_sent() const override { return 0; }
  uint64_t bytes_received() const override { return 0; }

 private:
  const PeerId remote_ = *PeerId::Parse("127.0.0.1:1001");
};

class Owner : public InLinkOwner {
 public:
  void OnFailFrameOnLoop(const PeerId&, const Tag&, const Status&) override {}
  Status OnAskOnLoop(const PeerId&, const Tag&, const Signature&) override { return OkStatus(); }
  void OnPullOnLoop(const PeerId&, const FrameHeader&) override {}
  void OnInLinkClosedOnLoop(InLink*, const Status&) override {}
};

// One operation, which awaits one message of a few bytes.
class Awaiting : public MailboxUser, private Sink {
 public:
  Awaiting(Mailbox* mailbox, const PeerId& from, uint64_t number, uint64_t size)
      : mailbox_(mailbox), place_(size, '\0') {
    OperationId id;
    id.number = number;
    id.name = "x";
    box_ = mailbox->Open(id, {}, this);
    mailbox->FindMismatch(*box_);
    is_here_ = mailbox->Receive(box_, from, 0, size, this, [this](const Status& status) {
      fuzz::Require(!is_here_ && (!status.ok() || arrived_ == place_.size()), "a message is whole, and comes once");
      is_here_ = true;
    });
  }
  ~Awaiting() override { mailbox_->Close(box_); }

  void OnMismatchOnLoop(const PeerId&, const std::string&) override {}
  Status LossOnLoop(const PeerId&, const Status& why) const override { return why; }

 private:
  MutableBytes Reserve(size_t max) override {
    fuzz::Require(max <= place_.size() - arrived_, "no more comes than was asked for");
    return {place_.data() + arrived_, place_.size() - arrived_};
  }
  void Commit(size_t size) override { arrived_ += size; }
  void Consume(ConstBytes) override {}

  Mailbox* const mailbox_;
  std::string place_;
  size_t arrived_ = 0;
  bool is_here_ = false;
  Mailbox::Box* box_;
};

// The payload arrives in pieces. Returns whether it is whole.
bool Deliver(Sink* sink, uint64_t size, fuzz::Input* input) {
  while (size > 0) {
    const std::string bytes = input->Bytes(std::min<uint64_t>(size, 1 + input->Number<uint8_t>()));
    if (bytes.empty()) return false;
    const MutableBytes place = sink->Reserve(size);
    const size_t taken = place.size > 0 ? std::min(place.size, bytes.size()) : bytes.size();
    if (place.size > 0) {
      std::memcpy(place.data, bytes.data(), taken);
      sink->Commit(taken);
    } else {
      sink->Consume({bytes.data(), taken});
    }
    size -= taken;
  }
  return true;
}

void TryOnLoop(EventLoop* loop, fuzz::Input input) {
  Mailbox mailbox;
  Owner owner;
  InLink link(loop, std::make_unique<Unsent>(), &mailbox, &owner);
  std::map<uint64_t, std::unique_ptr<Awaiting>> open;
  uint64_t opened = 0;
  while (!input.over()) {
    const auto what = input.Number<uint8_t>();
    if (what % 4 == 0) {
      open[opened] = std::make_unique<Awaiting>(&mailbox, link.peer(), opened, input.Number<uint8_t>() % 64);
      ++opened;
    } else if (what % 4 == 1) {
      open.erase(input.Number<uint8_t>() % 16);
    } else {
      FrameHeader header;
      header.type = static_cast<FrameType>(1 + input.Number<uint8_t>() % 11);
      header.tag.name = "x";
      header.tag.number = input.Number<uint8_t>() % 16;
      header.tag.part = input.Number<uint8_t>() % 2;
      header.tag.epoch = input.Number<uint8_t>() % 2;
      header.signature.count = input.Number<uint8_t>() % 2;
      header.code = Code::kInternal;
      const uint64_t size = input.Number<uint8_t>() % 64;
      const bool is_announced = header.type == FrameType::kAnnounce || header.type == FrameType::kCredit;
      const bool is_empty = is_announced || header.type == FrameType::kPull || header.type == FrameType::kAnew ||
                            header.type == FrameType::kGrant || header.type == FrameType::kBye;
      if (is_announced) header.bulk_size = size;
      if (!is_empty) header.payload_size = size;
      Sink* sink = nullptr;
      if (!link.OnFrameOnLoop(link.connection(), header, &sink).ok()) break;
      if (sink != nullptr && !Deliver(sink, header.payload_size, &input)) break;  // it ends amid a payload
      link.OnFrameEndOnLoop(link.connection(), header);
    }
  }
  link.OnClosedOnLoop(link.connection(), UnavailableError("it is over"));
}

}  // namespace
}  // namespace kungfu

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static kungfu::EventLoop* const loop = kungfu::EventLoop::Start()->release();
  std::promise<void> done;
  loop->Post([&] {
    kungfu::TryOnLoop(loop, {data, size});
    done.set_value();
  });
  done.get_future().wait();
  return 0;
}
