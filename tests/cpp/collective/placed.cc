#include "tests/cpp/collective/placed.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "tests/cpp/collective/values.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

struct PlacedCase {
  DType dtype;
  ReduceOp op;
  uint64_t count;
  bool in_place;
  std::vector<char> expected;
  std::vector<Buffer> send, recv;

  std::string name() const {
    return std::string(Name(op)) + "/" + Name(dtype) + "/" + std::to_string(count) + (in_place ? "/in" : "/out");
  }
};

PlacedCase MakeCase(const Cluster& cluster, PlaceOf place_of, DType dtype, ReduceOp op, uint64_t count, bool in_place) {
  PlacedCase one{dtype, op, count, in_place, {}, {}, {}};
  std::vector<std::vector<char>> values;
  for (int rank = 0; rank < cluster.size(); ++rank) {
    const Place place = place_of(rank);
    values.push_back(MakeValues(dtype, op, count, rank));
    one.send.emplace_back(cluster.arena(rank), place, values.back());
    one.recv.emplace_back(cluster.arena(rank), place, std::vector<char>(in_place ? 0 : values.back().size(), '\x55'));
  }
  one.expected = ExpectedValues(dtype, op, values);
  return one;
}

std::vector<PlacedCase> MakeCases(const Cluster& cluster, PlaceOf place_of) {
  std::vector<PlacedCase> cases;
  for (int t = kFirstDType; t < kEndDType; ++t) {
    for (int o = 0; o < kNumReduceOps; ++o) {
      const DType dtype = static_cast<DType>(t);
      const ReduceOp op = static_cast<ReduceOp>(o);
      if (!Supports(dtype, op)) continue;
      for (const uint64_t count : kCounts) {
        for (const bool in_place : {false, true}) {
          cases.push_back(MakeCase(cluster, place_of, dtype, op, count, in_place));
        }
      }
    }
  }
  return cases;
}

Sent SentBy(Peer* peer) {
  Sent sent;
  for (const Peer::PeerTraffic& to : peer->TrafficByRank()) {
    sent.messages += to.total.messages_sent;
    sent.bytes += to.total.payload_sent;
  }
  return sent;
}

}  // namespace

Buffer::Buffer(Arena* arena, Place place, const std::vector<char>& bytes) : arena_(arena), size_(bytes.size()) {
  if (place == Place::kOrdinary) {
    ordinary_.resize(size_ + 1);
    data_ = ordinary_.data();
  } else {
    constexpr size_t kOdd = 3 * 16 + 8;  // as far as any type asks for
    block_ = static_cast<char*>(arena->Allocate(size_ + kOdd));
    if (block_ == nullptr) std::abort();
    data_ = block_ + (place == Place::kUneven ? kOdd : 0);
  }
  std::copy(bytes.begin(), bytes.end(), data_);
}

Buffer::~Buffer() {
  if (block_ != nullptr) arena_->Free(block_);
}

Buffer::Buffer(Buffer&& other) : Buffer(other.arena_, Place::kOrdinary, {}) { *this = std::move(other); }

Buffer& Buffer::operator=(Buffer&& other) {
  std::swap(size_, other.size_);
  std::swap(block_, other.block_);
  std::swap(data_, other.data_);
  ordinary_.swap(other.ordinary_);
  return *this;
}

size_t RunPlacedGrid(Cluster* cluster, PlaceOf place_of) {
  std::vector<PlacedCase> cases = MakeCases(*cluster, place_of);
  std::vector<std::future<Status>> futures;
  for (PlacedCase& one : cases) {
    for (int rank = 0; rank < cluster->size(); ++rank) {
      Operation operation = MakeOperation(Kind::kAllReduce, one.name(), one.dtype, one.op);
      char* const send = one.send[rank].data();
      operation.spans = {{send, one.in_place ? send : one.recv[rank].data(), one.count}};
      futures.push_back(cluster->Start(rank, std::move(operation)));
    }
  }
  for (auto& future : futures) EXPECT_OK(Wait(&future));
  for (const PlacedCase& one : cases) {
    for (int rank = 0; rank < cluster->size(); ++rank) {
      if ((one.in_place ? one.send : one.recv)[rank].bytes() == one.expected) continue;
      Fail(__FILE__, __LINE__,
           std::to_string(cluster->size()) + " peers, rank " + std::to_string(rank) + ": " + one.name());
    }
  }
  return cases.size();
}

std::vector<Sent> SentForBytes(Cluster* cluster, uint64_t bytes, Place place) {
  ExpectAllOk(cluster->Run([](int) { return MakeOperation(Kind::kBarrier, "together"); }));
  std::vector<Sent> sent;
  std::vector<Buffer> tensors;
  for (int rank = 0; rank < cluster->size(); ++rank) {
    sent.push_back(SentBy(cluster->peer(rank)));
    tensors.emplace_back(cluster->arena(rank), place, std::vector<char>(bytes, 1));
  }
  ExpectAllOk(cluster->Run([&](int rank) {
    Operation operation = MakeOperation(Kind::kAllReduce, "x", DType::kUint8);
    operation.spans = {{tensors[rank].data(), tensors[rank].data(), bytes}};
    return operation;
  }));
  const std::vector<char> sum(bytes, static_cast<char>(cluster->size()));
  for (int rank = 0; rank < cluster->size(); ++rank) {
    EXPECT_TRUE(tensors[rank].bytes() == sum);
    const Sent now = SentBy(cluster->peer(rank));
    sent[rank] = {now.messages - sent[rank].messages, now.bytes - sent[rank].bytes};
  }
  return sent;
}

}  // namespace kungfu::testing
