#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "ops/c_api/convert.h"
#include "ops/c_api/kungfu.h"
#include "ops/c_api/last_error.h"
#include "ops/peer/default_peer.h"

using kungfu::DType;
using kungfu::FromNumber;
using kungfu::Peer;
using kungfu::SetLastError;
using kungfu::Status;
using kungfu::StatusOr;

namespace {

// The form of the tensors, for the store.
kungfu::Payload SentOf(const kungfu_span* spans, int num_spans, const kungfu_blob* blob) {
  kungfu::Payload pieces;
  const size_t size = kungfu::SizeOf(FromNumber<DType>(blob->dtype));
  for (int i = 0; i < num_spans; ++i)
    pieces.push_back({static_cast<const char*>(spans[i].send), spans[i].count * size});
  return pieces;
}

StatusOr<kungfu::BlobForm> FormOf(const kungfu_span* spans, int num_spans, const kungfu_blob* blob) {
  kungfu::BlobForm form;
  form.dtype = FromNumber<DType>(blob->dtype);
  if (blob->dtype < 0 || blob->dtype >= kungfu::kNumDTypes) {
    return kungfu::InvalidArgumentError(kungfu::Name(form.dtype) + std::string(" cannot travel"));
  }
  for (int i = 0; i < num_spans; ++i) form.count += spans[i].count;
  form.shape_digest = blob->shape_digest;
  form.shapes = blob->shapes ? blob->shapes : "";
  return form;
}

std::string NameOf(const kungfu_blob* blob) { return blob->name ? blob->name : ""; }

using Ended = std::function<void(const Status& status, const kungfu::BlobHead& head)>;

// Tells `done` of the end of a request, and before that the version.
Ended Versioned(int64_t* version, kungfu_done done, void* arg) {
  return [version, tell = kungfu::Telling(done, arg)](const Status& status, const kungfu::BlobHead& head) {
    if (version) *version = static_cast<int64_t>(head.version);
    tell(status);
  };
}

// Starts `request`, but for what `spans`, `blob` and `ended` say of it.
uint64_t StartRequest(kungfu::Request request, const kungfu_span* spans, int num_spans, const kungfu_blob* blob,
                      Ended ended) {
  request.done = std::move(ended);
  request.query.name = NameOf(blob);
  StatusOr<Peer*> peer = kungfu::DefaultPeer();
  const StatusOr<kungfu::BlobForm> form = FormOf(spans, num_spans, blob);
  const Status& failed = peer.ok() ? form.status() : peer.status();
  if (!failed.ok()) {
    request.done(failed.WithContext(kungfu::Title(request)), {});
    return 0;
  }
  request.query.expected = form->signature();
  for (int i = 0; i < num_spans; ++i) {
    request.places.push_back({static_cast<char*>(spans[i].recv), spans[i].count * kungfu::SizeOf(form->dtype)});
  }
  const std::shared_ptr<kungfu::Session> session = (*peer)->session();
  request.peers = session->peers();
  if (request.query.takes && !request.query.version) request.query.version = session->epoch();
  return (*peer)->p2p()->Start(std::move(request));
}

}  // namespace

int kungfu_save(const kungfu_span* spans, int num_spans, const kungfu_blob* blob, int keep, int64_t* version) {
  StatusOr<Peer*> peer = kungfu::DefaultPeer();
  if (!peer.ok()) return SetLastError(peer.status());
  const StatusOr<kungfu::BlobForm> form = FormOf(spans, num_spans, blob);
  if (!form.ok()) return SetLastError(form.status().WithContext("save of '" + NameOf(blob) + "'"));
  std::optional<uint64_t> asked;
  if (blob->version >= 0) asked = static_cast<uint64_t>(blob->version);
  const StatusOr<uint64_t> saved =
      (*peer)->p2p()->Save(NameOf(blob), asked, *form, SentOf(spans, num_spans, blob), keep);
  if (saved.ok() && version) *version = static_cast<int64_t>(*saved);
  return SetLastError(saved.status());
}

int kungfu_forget(const char* prefix) {
  StatusOr<Peer*> peer = kungfu::DefaultPeer();
  if (peer.ok()) (*peer)->p2p()->Forget(prefix);
  return SetLastError(peer.status());
}

uint64_t kungfu_request(int target, const kungfu_span* spans, int num_spans, const kungfu_blob* blob, int wait,
                        double timeout, int64_t* version, kungfu_done done, void* arg) {
  kungfu::Request request;
  if (blob->version >= 0) request.query.version = static_cast<uint64_t>(blob->version);
  request.waits = wait != 0;
  request.timeout = timeout;
  request.target = target;
  return StartRequest(std::move(request), spans, num_spans, blob, Versioned(version, done, arg));
}

uint64_t kungfu_get(int source, const kungfu_span* spans, int num_spans, const kungfu_blob* blob, double timeout,
                    kungfu_done done, void* arg) {
  kungfu::Request request;
  request.query.takes = true;
  request.timeout = timeout;
  request.target = source;
  return StartRequest(std::move(request), spans, num_spans, blob, Versioned(nullptr, done, arg));
}

int kungfu_post(const kungfu_span* spans, int num_spans, const kungfu_blob* blob, int64_t epoch, double weight,
                int replaces) {
  StatusOr<Peer*> peer = kungfu::DefaultPeer();
  if (!peer.ok()) return SetLastError(peer.status());
  const StatusOr<kungfu::BlobForm> form = FormOf(spans, num_spans, blob);
  if (!form.ok()) return SetLastError(form.status().WithContext("post into outbox '" + NameOf(blob) + "'"));
  return SetLastError((*peer)->p2p()->Post(NameOf(blob), static_cast<uint64_t>(epoch), *form,
                                           SentOf(spans, num_spans, blob), weight, replaces != 0));
}

uint64_t kungfu_collect(int source, const kungfu_span* spans, int num_spans, const kungfu_blob* blob, int64_t epoch,
                        kungfu_collected* collected, kungfu_done done, void* arg) {
  kungfu::Request request;
  request.query.takes = true;
  request.query.version = static_cast<uint64_t>(epoch);
  request.waits = false;
  request.target = source;
  const auto ended = [collected, tell = kungfu::Telling(done, arg)](const Status& status,
                                                                    const kungfu::BlobHead& head) {
    const bool is_empty = status.code() == kungfu::Code::kNotFound;
    *collected = kungfu_collected{};
    if (status.ok()) *collected = {static_cast<int64_t>(head.version), head.weight, head.replaces};
    tell(is_empty ? kungfu::OkStatus() : status);
  };
  return StartRequest(std::move(request), spans, num_spans, blob, ended);
}

uint64_t kungfu_put(const kungfu_span* spans, int num_spans, const kungfu_blob* blob, int capacity, double timeout,
                    kungfu_done done, void* arg) {
  kungfu::Put put;
  put.queue = NameOf(blob);
  put.capacity = capacity;
  put.timeout = timeout;
  put.done = kungfu::Telling(done, arg);
  StatusOr<Peer*> peer = kungfu::DefaultPeer();
  StatusOr<kungfu::BlobForm> form = FormOf(spans, num_spans, blob);
  const Status& failed = peer.ok() ? form.status() : peer.status();
  if (!failed.ok()) {
    put.done(failed.WithContext("put into queue '" + put.queue + "'"));
    return 0;
  }
  put.epoch = (*peer)->session()->epoch();
  put.form = std::move(*form);
  put.bytes = SentOf(spans, num_spans, blob);
  return (*peer)->p2p()->Start(std::move(put));
}
