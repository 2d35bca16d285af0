#include "tests/cpp/store/blobs.h"

#include <utility>

#include "tests/cpp/testing.h"

namespace kungfu::testing {

BlobForm FormOf(size_t count, uint64_t shape_digest) {
  BlobForm form;
  form.dtype = DType::kFloat32;
  form.count = count;
  form.shape_digest = shape_digest;
  return form;
}

Payload BytesOf(const Floats& values) {
  // Two pieces, as of two tensors.
  const char* data = reinterpret_cast<const char*>(values.data());
  const size_t half = values.size() / 2 * sizeof(float), size = values.size() * sizeof(float);
  return {{data, half}, {data + half, size - half}};
}

Floats Numbers(size_t count, float first) {
  Floats values(count);
  for (size_t i = 0; i < count; ++i) values[i] = first + static_cast<float>(i % 65521);
  return values;
}

StatusOr<uint64_t> Save(Cluster* cluster, int rank, const std::string& name, const Floats& values,
                        std::optional<uint64_t> version, int keep) {
  return cluster->peer(rank)->p2p()->Save(name, version, FormOf(values.size()), BytesOf(values), keep);
}

std::shared_ptr<Asked> Ask(Cluster* cluster, int rank, int target, const Question& question) {
  auto asked = std::make_shared<Asked>();
  asked->values.resize(question.count);
  auto promise = std::make_shared<std::promise<Status>>();
  asked->status = promise->get_future();
  Request request;
  request.query.name = question.name;
  request.query.version = question.version;
  request.query.takes = question.takes;
  if (question.takes) request.query.version = cluster->session(rank)->epoch();
  BlobForm form = FormOf(question.count, question.shape_digest);
  form.dtype = question.dtype;
  request.query.expected = form.signature();
  request.waits = question.waits;
  request.timeout = question.timeout;
  request.peers = cluster->session(rank)->peers();
  request.target = target;
  for (const ConstBytes& piece : BytesOf(asked->values)) {
    request.places.push_back({const_cast<char*>(piece.data), piece.size});
  }
  request.done = [asked, promise](const Status& status, const BlobHead& head) {
    asked->head = head;
    promise->set_value(status);
  };
  asked->handle = cluster->peer(rank)->p2p()->Start(std::move(request));
  return asked;
}

void BeginEpoch(Cluster* cluster) {
  std::vector<std::future<Status>> begun;
  for (int rank = 0; rank < cluster->size(); ++rank) {
    auto promise = std::make_shared<std::promise<Status>>();
    begun.push_back(promise->get_future());
    cluster->peer(rank)->BeginEpoch(StrategyName::kAuto, [promise](const Status& s) { promise->set_value(s); });
  }
  for (auto& future : begun) EXPECT_OK(Wait(&future));
}

std::future<Status> PutInto(Cluster* cluster, int rank, const std::string& queue, float value, int capacity,
                            double timeout) {
  const Floats values(1, value);
  auto promise = std::make_shared<std::promise<Status>>();
  Put put;
  put.queue = queue;
  put.epoch = cluster->session(rank)->epoch();
  put.form = FormOf(1);
  put.bytes = BytesOf(values);
  put.capacity = capacity;
  put.timeout = timeout;
  put.done = [promise](const Status& status) { promise->set_value(status); };
  std::future<Status> status = promise->get_future();
  cluster->peer(rank)->p2p()->Start(std::move(put));
  return status;
}

}  // namespace kungfu::testing
