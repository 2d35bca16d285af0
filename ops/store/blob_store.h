// The data that this peer keeps for others: the newest versions of named blobs; queues, from which each blob is
// taken once; and outboxes, queues of one blob at most, in which what is posted is added up until it is taken. It does
// no I/O and waits for nothing.
//
// Saving copies once; a kept blob does not change, and is shared while it is sent. Any thread.

#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>

#include "ops/base/bytes.h"
#include "ops/base/mutex.h"
#include "ops/base/status.h"
#include "ops/store/blob.h"
#include "ops/store/buffer_pool.h"

namespace kungfu {

// A request for a blob.
struct Query {
  std::string name;
  std::optional<uint64_t> version;  // none: the newest; of a queue its epoch, none: this one
  bool takes = false;               // the next one out of a queue
  Signature expected;
};

class BlobStore {
 public:
  // Keeps `window` versions of a name, unless a save says otherwise.
  explicit BlobStore(int window) : window_(window) {}

  // A copy of `bytes`. kResourceExhausted: there is no memory.
  // REQUIRES: `form` says as many bytes.
  StatusOr<std::shared_ptr<Blob>> Copy(const BlobForm& form, const Payload& bytes);

  // Keeps the blob under `name`, and returns its version: without one, one more than the newest, from 0. `keep`: how
  // many versions stay, 0 for the window. kInvalidArgument: versions ascend.
  StatusOr<uint64_t> Save(const std::string& name, std::optional<uint64_t> version, std::shared_ptr<Blob> blob,
                          int keep) EXCLUDES(mu_);

  // Keeps nothing any more under names that begin with `prefix`, also of queues: their versions begin anew.
  void Forget(const std::string& prefix) EXCLUDES(mu_);

  // kNotFound: not yet; any other error: never. A blob of a queue is taken out.
  StatusOr<BlobRef> Look(const Query& query) EXCLUDES(mu_);

  // Puts the blob at the end of a queue and returns its number. kCancelled: the epoch has ended.
  StatusOr<uint64_t> Push(const std::string& queue, uint64_t epoch, std::shared_ptr<Blob> blob) EXCLUDES(mu_);
  // Puts the blob into a queue that is an outbox. If that holds one already they are added up, or the new one stays
  // alone if it replaces. What is being added up is not there to be taken. kCancelled as for Push; kInvalidArgument:
  // the other one has another form.
  Status PostInto(const std::string& outbox, uint64_t epoch, std::shared_ptr<Blob> blob) EXCLUDES(mu_);
  // From now on all queues are of this epoch, and empty. Its ranks may be other peers, and the place of an error in the
  // old queues is unknown.
  void BeginEpoch(uint64_t epoch) EXCLUDES(mu_);
  // How many are before it; -1 if it was taken.
  int PositionOf(const std::string& queue, uint64_t number) const EXCLUDES(mu_);
  // Takes it back. Returns false if it has been taken.
  bool Remove(const std::string& queue, uint64_t number) EXCLUDES(mu_);

 private:
  using Queue = std::deque<BlobRef>;  // their versions are their numbers

  StatusOr<BlobRef> Find(const Query& query) const REQUIRES(mu_);
  StatusOr<BlobRef> TakeOut(const Query& query) REQUIRES(mu_);
  // Puts it in and returns null; or takes out what is in the way.
  StatusOr<BlobRef> PutOrTake(const std::string& outbox, uint64_t epoch, const BlobRef& blob) EXCLUDES(mu_);
  StatusOr<BlobRef> Sum(const BlobRef& old, const BlobRef& added);

  const int window_;
  // A model's blobs come in one size for each dtype: one of each is filled while another is sent.
  static constexpr size_t kMostSpares = 4;
  BufferPool pool_{kMostSpares};

  mutable Mutex mu_;
  std::unordered_map<std::string, std::deque<BlobRef>> kept_ GUARDED_BY(mu_);  // versions ascend
  std::unordered_map<std::string, Queue> queues_ GUARDED_BY(mu_);
  uint64_t epoch_ GUARDED_BY(mu_) = 0;  // of the queues
  uint64_t next_number_ GUARDED_BY(mu_) = 0;
};

}  // namespace kungfu
