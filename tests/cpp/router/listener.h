#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/router/router.h"
#include "tests/cpp/testing.h"
#include "tests/cpp/transport/socket_fixture.h"

namespace kungfu::testing {

// A router with its loop, which remembers what it is told.
class Listener : private RouterHandler {
 public:
  Listener(UnixFixture* fixture, const PeerId& self, const PeerId& other) {
    StatusOr<std::unique_ptr<TransportSet>> transports =
        TransportSet::Make(loop_.get(), CredentialsOf(self), "unix", fixture->directory());
    EXPECT_OK(transports.status());
    RunOnLoop(loop_.get(), [&] {
      transports_ = std::move(*transports);
      router_ = std::make_unique<Router>(loop_.get(), transports_.get(), kPatience);
      router_->BeginEpochOnLoop(0, PeerList({self, other}), this);
      EXPECT_OK(router_->ListenOnLoop());
    });
  }
  ~Listener() override {
    RunOnLoop(loop_.get(), [&] {
      router_.reset();
      transports_.reset();
    });
  }

  EventLoop* loop() const { return loop_.get(); }
  Router* router() const { return router_.get(); }
  // What it was told as number `index`: the name of an operation that was asked for, "lost" for a peer that is; empty
  // if nothing comes.
  std::string AwaitHeard(size_t index) const {
    const bool heard = heard_.Await([&](const auto& all) { return all.size() > index; });
    return heard ? heard_.Get()[index] : "";
  }

 private:
  void Hear(const std::string& what) {
    heard_.Update([&](auto& heard) { heard.push_back(what); });
  }
  void OnFailOnLoop(const PeerId&, const OperationId&, const Status&, bool) override { Hear("failure"); }
  Status OnAskOnLoop(const PeerId&, const OperationId& id, const Signature&) override {
    Hear(id.name);
    return OkStatus();
  }
  void OnAnswerOnLoop(const PeerId&, const OperationId&, const Status&) override { Hear("answer"); }
  Status OnPeerLostOnLoop(const PeerId&, const Status& why, bool) override {
    Hear("lost");
    return why;
  }

  Guarded<std::vector<std::string>> heard_{{}};
  const std::unique_ptr<EventLoop> loop_ = NewLoop();
  std::unique_ptr<TransportSet> transports_;
  std::unique_ptr<Router> router_;
};

}  // namespace kungfu::testing
