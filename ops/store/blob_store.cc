#include "ops/store/blob_store.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ops/base/reduce.h"
#include "ops/router/copy_sink.h"

namespace kungfu {
namespace {

Status NotYet(std::string message) { return Status(Code::kNotFound, std::move(message)); }

Status EndedError(uint64_t epoch) { return CancelledError("epoch " + std::to_string(epoch) + " has ended there"); }

Status NoMemory(uint64_t size) {
  return ResourceExhaustedError("there is no memory for a copy of " + std::to_string(size) + " bytes");
}

StatusOr<BlobRef> Fitting(const BlobRef& blob, const Signature& expected) {
  if (blob->form.fits(expected)) return blob;
  return InvalidArgumentError("it is " + blob->form.ToString() + " there");
}

}  // namespace

Signature BlobForm::signature() const {
  Signature signature;
  signature.kind = Kind::kBroadcast;  // of one peer
  signature.dtype = dtype;
  signature.count = count;
  signature.shape_digest = shape_digest;
  return signature;
}

bool BlobForm::fits(const Signature& expected) const {
  return dtype == expected.dtype && count == expected.count && shape_digest == expected.shape_digest;
}

std::string BlobForm::ToString() const {
  if (!shapes.empty()) return std::string(Name(dtype)) + " " + shapes;
  return std::to_string(count) + " " + Name(dtype);
}

StatusOr<std::shared_ptr<Blob>> BlobStore::Copy(const BlobForm& form, const Payload& bytes) {
  const std::shared_ptr<char> memory = pool_.Take(form.size());
  if (!memory) return NoMemory(form.size());
  kungfu::Copy(bytes, {{memory.get(), form.size()}});
  auto blob = std::make_shared<Blob>();
  blob->form = form;
  blob->bytes = memory;
  return blob;
}

StatusOr<uint64_t> BlobStore::Save(const std::string& name, std::optional<uint64_t> version, std::shared_ptr<Blob> blob,
                                   int keep) {
  std::deque<BlobRef> old;  // memory is given back without the lock
  MutexLock lock(&mu_);
  std::deque<BlobRef>& versions = kept_[name];
  const uint64_t next = versions.empty() ? 0 : versions.back()->head.version + 1;
  if (version && !versions.empty() && *version < next) {
    return InvalidArgumentError("version " + std::to_string(*version) + " comes too late, version " +
                                std::to_string(next - 1) + " is the newest: versions ascend");
  }
  blob->head.version = version.value_or(next);
  versions.push_back(blob);
  const size_t window = static_cast<size_t>(keep > 0 ? keep : window_);
  while (versions.size() > window) {
    old.push_back(std::move(versions.front()));
    versions.pop_front();
  }
  return blob->head.version;
}

void BlobStore::Forget(const std::string& prefix) {
  std::vector<std::deque<BlobRef>> old;  // memory is given back without the lock
  MutexLock lock(&mu_);
  for (auto* blobs : {&kept_, &queues_}) {
    for (auto it = blobs->begin(); it != blobs->end();) {
      if (it->first.compare(0, prefix.size(), prefix) != 0) {
        ++it;
        continue;
      }
      old.push_back(std::move(it->second));
      it = blobs->erase(it);
    }
  }
}

StatusOr<BlobRef> BlobStore::Look(const Query& query) {
  MutexLock lock(&mu_);
  return query.takes ? TakeOut(query) : Find(query);
}

StatusOr<BlobRef> BlobStore::Find(const Query& query) const {
  const auto it = kept_.find(query.name);
  if (it == kept_.end()) return NotYet("nothing was saved under this name");
  const std::deque<BlobRef>& versions = it->second;
  if (!query.version) return Fitting(versions.back(), query.expected);
  const auto found =
      std::lower_bound(versions.begin(), versions.end(), *query.version,
                       [](const BlobRef& blob, uint64_t version) { return blob->head.version < version; });
  const std::string wanted = "version " + std::to_string(*query.version);
  if (found == versions.end()) {
    return NotYet(wanted + " was not saved yet, the newest is " + std::to_string(versions.back()->head.version));
  }
  if ((*found)->head.version == *query.version) return Fitting(*found, query.expected);
  const std::string reason = found == versions.begin() ? " has left the window" : " was never saved";
  return Status(Code::kOutOfRange, wanted + reason + ": versions " + std::to_string(versions.front()->head.version) +
                                       " to " + std::to_string(versions.back()->head.version) + " are kept");
}

StatusOr<BlobRef> BlobStore::TakeOut(const Query& query) {
  const uint64_t epoch = query.version.value_or(epoch_);
  if (epoch < epoch_) return EndedError(epoch);
  const auto it = queues_.find(query.name);
  if (epoch > epoch_ || it == queues_.end() || it->second.empty()) return NotYet("the queue is empty");
  StatusOr<BlobRef> first = Fitting(it->second.front(), query.expected);
  if (first.ok()) it->second.pop_front();
  return first;
}

StatusOr<uint64_t> BlobStore::Push(const std::string& queue, uint64_t epoch, std::shared_ptr<Blob> blob) {
  MutexLock lock(&mu_);
  if (epoch != epoch_) return EndedError(epoch);
  blob->head.version = next_number_++;
  Queue& the_queue = queues_[queue];
  the_queue.push_back(std::move(blob));
  return the_queue.back()->head.version;
}

Status BlobStore::PostInto(const std::string& outbox, uint64_t epoch, std::shared_ptr<Blob> blob) {
  blob->head.version = 1;
  BlobRef posted = std::move(blob);
  while (true) {
    const StatusOr<BlobRef> there = PutOrTake(outbox, epoch, posted);
    if (!there.ok() || !*there) return there.status();
    StatusOr<BlobRef> sum = Sum(*there, posted);
    if (!sum.ok()) return sum.status();
    posted = std::move(*sum);
  }
}

StatusOr<BlobRef> BlobStore::PutOrTake(const std::string& outbox, uint64_t epoch, const BlobRef& blob) {
  MutexLock lock(&mu_);
  if (epoch != epoch_) return EndedError(epoch);
  Queue& blobs = queues_[outbox];
  BlobRef there;
  if (blobs.empty()) {
    blobs.push_back(blob);
  } else if (blobs.front()->form.fits(blob->form.signature())) {
    there = std::move(blobs.front());
    blobs.pop_front();
  } else {
    return InvalidArgumentError("what was posted before is " + blobs.front()->form.ToString() + ", and this is " +
                                blob->form.ToString());
  }
  return there;
}

StatusOr<BlobRef> BlobStore::Sum(const BlobRef& old, const BlobRef& added) {
  auto sum = std::make_shared<Blob>(*added);
  sum->head.version += old->head.version;
  if (added->head.replaces) return BlobRef(sum);
  const std::shared_ptr<char> memory = pool_.Take(sum->form.size());
  if (!memory) return NoMemory(sum->form.size());
  Reduce(memory.get(), old->bytes.get(), added->bytes.get(), sum->form.count, sum->form.dtype, ReduceOp::kSum);
  sum->bytes = memory;
  sum->head.weight += old->head.weight;
  sum->head.replaces = old->head.replaces;
  return BlobRef(sum);
}

void BlobStore::BeginEpoch(uint64_t epoch) {
  std::unordered_map<std::string, Queue> old;  // memory is given back without the lock
  MutexLock lock(&mu_);
  epoch_ = epoch;
  old.swap(queues_);
}

int BlobStore::PositionOf(const std::string& queue, uint64_t number) const {
  MutexLock lock(&mu_);
  const auto found = queues_.find(queue);
  if (found == queues_.end()) return -1;
  const Queue& blobs = found->second;
  for (size_t i = 0; i < blobs.size(); ++i) {
    if (blobs[i]->head.version == number) return static_cast<int>(i);
  }
  return -1;
}

bool BlobStore::Remove(const std::string& queue, uint64_t number) {
  MutexLock lock(&mu_);
  const auto found = queues_.find(queue);
  if (found == queues_.end()) return false;
  Queue& blobs = found->second;
  const auto it =
      std::find_if(blobs.begin(), blobs.end(), [number](const BlobRef& blob) { return blob->head.version == number; });
  if (it == blobs.end()) return false;
  blobs.erase(it);
  return true;
}

}  // namespace kungfu
