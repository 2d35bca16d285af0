#include "ops/tensorflow/begun.h"

#include <atomic>
#include <utility>

#include "absl/strings/match.h"

namespace kungfu::kernels {

void Begun::OnDone(void* arg, int code, const char* message) {
  const std::unique_ptr<std::shared_ptr<Begun>> self(static_cast<std::shared_ptr<Begun>*>(arg));
  (*self)->Finish(ToStatus(code, message));
}

void Begun::SetOperation(uint64_t operation) {
  const std::lock_guard<std::mutex> lock(mu_);
  operation_ = operation;
}

void Begun::Cancel() {
  uint64_t operation;
  {
    const std::lock_guard<std::mutex> lock(mu_);
    operation = operation_;
  }
  kungfu_cancel(operation, 0, "");
}

void Begun::Await(std::function<void(const absl::Status&)> then) {
  {
    const std::lock_guard<std::mutex> lock(mu_);
    if (!done_) {
      then_.push_back(std::move(then));
      return;
    }
  }
  then(status_);
}

void Begun::AwaitIn(OpKernelContext* context, const std::shared_ptr<Begun>& begun,
                    std::function<void(const absl::Status&)> then) {
  auto* manager = context->cancellation_manager();
  const auto token = manager ? manager->get_cancellation_token() : tensorflow::CancellationManager::kInvalidToken;
  if (manager && !manager->RegisterCallback(token, [begun] { begun->Cancel(); })) begun->Cancel();
  begun->Await([=](const absl::Status& status) {
    if (manager) manager->TryDeregisterCallback(token);
    then(status);
  });
}

void Begun::Finish(absl::Status status) {
  std::vector<std::function<void(const absl::Status&)>> then;
  {
    const std::lock_guard<std::mutex> lock(mu_);
    status_ = std::move(status);
    done_ = true;
    then.swap(then_);
  }
  for (const auto& one : then) one(status_);
}

BegunByTag& BegunByTag::Requests() {
  static auto* requests = new BegunByTag;
  return *requests;
}

BegunByTag& BegunByTag::Collectives() {
  static auto* collectives = new BegunByTag;
  return *collectives;
}

bool BegunByTag::Add(const std::string& tag, std::shared_ptr<Begun> begun) {
  const std::lock_guard<std::mutex> lock(mu_);
  return by_tag_.emplace(tag, std::move(begun)).second;
}

std::shared_ptr<Begun> BegunByTag::Take(const std::string& tag) {
  const std::lock_guard<std::mutex> lock(mu_);
  const auto it = by_tag_.find(tag);
  if (it == by_tag_.end()) return nullptr;
  std::shared_ptr<Begun> begun = std::move(it->second);
  by_tag_.erase(it);
  return begun;
}

std::vector<std::shared_ptr<Begun>> BegunByTag::TakeAll(const std::string& prefix) {
  std::vector<std::shared_ptr<Begun>> taken;
  const std::lock_guard<std::mutex> lock(mu_);
  for (auto it = by_tag_.lower_bound(prefix); it != by_tag_.end() && absl::StartsWith(it->first, prefix);) {
    taken.push_back(std::move(it->second));
    it = by_tag_.erase(it);
  }
  return taken;
}

void BegunByTag::WhenEnded(std::function<void()> then) {
  std::vector<std::shared_ptr<Begun>> begun;
  {
    const std::lock_guard<std::mutex> lock(mu_);
    for (const auto& [tag, one] : by_tag_) begun.push_back(one);
  }
  if (begun.empty()) return then();
  auto left = std::make_shared<std::atomic<size_t>>(begun.size());
  for (const auto& one : begun) {
    one->Await([left, then](const absl::Status&) {
      if (left->fetch_sub(1) == 1) then();
    });
  }
}

}  // namespace kungfu::kernels
