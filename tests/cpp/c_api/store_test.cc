// The store through kungfu.h alone.

#include <unistd.h>

#include <future>
#include <string>
#include <vector>

#include "ops/c_api/kungfu.h"
#include "tests/cpp/c_api/processes.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

kungfu_blob BlobNamed(const char* name, int64_t version = -1) {
  kungfu_blob blob{};
  blob.name = name;
  blob.version = version;
  blob.dtype = KUNGFU_FLOAT32;
  return blob;
}

int Save(const char* name, std::vector<float> values, int64_t version = -1) {
  const kungfu_span span{values.data(), nullptr, values.size()};
  const kungfu_blob blob = BlobNamed(name, version);
  int64_t saved = -1;
  const int code = kungfu_save(&span, 1, &blob, 0, &saved);
  if (version >= 0 && code == kOk) EXPECT_EQ(saved, version);
  return code;
}

struct Answer {
  std::vector<float> values;
  int64_t version = -1;
  std::string message;
  std::promise<int> code;

  kungfu_span span() { return {nullptr, values.data(), values.size()}; }
  static void Done(void* arg, int code, const char* message) {
    auto* answer = static_cast<Answer*>(arg);
    answer->message = message;
    answer->code.set_value(code);
  }
  // The child's alarm ends a wait that is too long.
  int Wait() { return code.get_future().get(); }
};

int Request(int target, const kungfu_blob& blob, bool wait, Answer* answer) {
  answer->values.resize(2);
  const kungfu_span span = answer->span();
  kungfu_request(target, &span, 1, &blob, wait, 0, &answer->version, &Answer::Done, answer);
  return answer->Wait();
}

KF_TEST(CApiStore, AProcessAloneServesItself) {
  InProcess({}, [] {
    EXPECT_EQ(Save("x", {1, 2}, 7), kOk);
    Answer found, absent, wrong, put, got;
    EXPECT_EQ(Request(0, BlobNamed("x"), true, &found), kOk);
    EXPECT_EQ(found.version, 7);
    EXPECT_TRUE(found.values == (std::vector<float>{1, 2}));
    EXPECT_EQ(Request(0, BlobNamed("y"), true, &absent), kNotFound);
    EXPECT_CONTAINS(absent.message, "request of 'y': from rank 0 (");
    kungfu_blob unknown = BlobNamed("x");
    unknown.dtype = 99;
    EXPECT_EQ(Request(0, unknown, true, &wrong), kInvalidArgument);
    EXPECT_EQ(Save("x", {1, 2}, 7), kInvalidArgument);
    EXPECT_CONTAINS(kungfu_last_error(), "save of 'x': version 7 comes too late");

    const kungfu_blob queue = BlobNamed("q");
    put.values = {3, 4};
    const kungfu_span from{put.values.data(), nullptr, 2};
    kungfu_put(&from, 1, &queue, 1, 0, &Answer::Done, &put);
    EXPECT_EQ(put.Wait(), kOk);
    got.values.resize(2);
    const kungfu_span to = got.span();
    kungfu_get(0, &to, 1, &queue, 0, &Answer::Done, &got);
    EXPECT_EQ(got.Wait(), kOk);
    EXPECT_TRUE(got.values == put.values);
  });
}

KF_TEST(CApiStore, AProcessAloneCollectsWhatItHasPosted) {
  InProcess({}, [] {
    const kungfu_blob outbox = BlobNamed("o");
    const int64_t epoch = kungfu_epoch();
    std::vector<float> values{3, 4};
    const kungfu_span from{values.data(), nullptr, 2};
    kungfu_collected collected{};
    const auto collect = [&](Answer* answer) {
      answer->values.resize(2);
      const kungfu_span to = answer->span();
      kungfu_collect(0, &to, 1, &outbox, epoch, &collected, &Answer::Done, answer);
      return answer->Wait();
    };
    EXPECT_EQ(kungfu_post(&from, 1, &outbox, epoch, 0.5, 1), kOk);
    EXPECT_EQ(kungfu_post(&from, 1, &outbox, epoch, 0.25, 0), kOk);
    Answer both, none, late;
    EXPECT_EQ(collect(&both), kOk);
    EXPECT_TRUE(both.values == (std::vector<float>{6, 8}));
    EXPECT_EQ(collected.count, 2);
    EXPECT_EQ(collected.weight, 0.75);
    EXPECT_EQ(collected.replaces, 1);
    EXPECT_EQ(collect(&none), kOk);
    EXPECT_EQ(collected.count, 0);
    EXPECT_EQ(kungfu_post(&from, 1, &outbox, epoch + 1, 1, 0), kCancelled);
    kungfu_blob unknown = outbox;
    unknown.dtype = 99;
    EXPECT_EQ(kungfu_post(&from, 1, &unknown, epoch, 1, 0), kInvalidArgument);
    const kungfu_span to = late.span();
    kungfu_collect(0, &to, 1, &unknown, epoch, &collected, &Answer::Done, &late);
    EXPECT_EQ(late.Wait(), kInvalidArgument);
  });
}

// Rank 1 dies without a word, while rank 0 waits for what it has not saved.
KF_TEST(CApiStore, ATargetThatDiesEndsTheRequest) {
  InPeers(2, [](int rank) {
    Answer first, second;
    if (rank == 1) {
      EXPECT_EQ(Save("x", {1, 2}), kOk);
      EXPECT_EQ(Request(0, BlobNamed("enough"), true, &first), kOk);
      _exit(0);
    }
    EXPECT_EQ(Request(1, BlobNamed("x"), true, &first), kOk);
    kungfu_blob never = BlobNamed("never");
    second.values.resize(2);
    const kungfu_span span = second.span();
    kungfu_request(1, &span, 1, &never, 1, 0, nullptr, &Answer::Done, &second);
    EXPECT_EQ(Save("enough", {0, 0}), kOk);
    EXPECT_EQ(second.Wait(), kUnavailable);
    EXPECT_CONTAINS(second.message, "request of 'never': from rank 1 (127.0.0.1:2)");
  });
}

KF_TEST(CApiStore, ARequestCanBeCancelled) {
  InPeers(2, [](int rank) {
    Answer answer;
    if (rank == 1) {
      EXPECT_EQ(Request(0, BlobNamed("end"), true, &answer), kOk);
      EXPECT_EQ(Save("got", {0, 0}), kOk);
      return;
    }
    answer.values.resize(2);
    const kungfu_span span = answer.span();
    const kungfu_blob never = BlobNamed("never");
    const uint64_t operation = kungfu_request(1, &span, 1, &never, 1, 0, nullptr, &Answer::Done, &answer);
    kungfu_cancel(operation, 10, "the test says so");
    EXPECT_EQ(answer.Wait(), 10);
    EXPECT_CONTAINS(answer.message, "request of 'never': it was cancelled, because the test says so");
    EXPECT_EQ(Save("end", {0, 0}), kOk);
    Answer got;
    const int code = Request(1, BlobNamed("got"), true, &got);
    EXPECT_TRUE(code == kOk || code == kUnavailable);  // it has got it, and may be gone
    kungfu_shutdown();
  });
}

// Who ends in order has nothing to give any more; who crashes is missed.
KF_TEST(CApiStore, ACrashIsNoGoodbye) {
  for (const bool crashes : {false, true}) {
    int asked[2];
    EXPECT_EQ(pipe(asked), 0);
    const auto body = [&](int rank) {
      EXPECT_EQ(Save("x", {1, 2}), kOk);
      Answer first;
      EXPECT_EQ(Request(1 - rank, BlobNamed("x"), true, &first), kOk);
      if (rank == 0) {
        EXPECT_EQ(Save("got", {1, 2}), kOk);
        Answer last;
        EXPECT_EQ(Request(1, BlobNamed("end"), true, &last), kUnavailable);
        Answer now;
        EXPECT_EQ(Request(1, BlobNamed("x"), false, &now), crashes ? kUnavailable : kNotFound);
      } else if (crashes) {
        Answer got;
        EXPECT_EQ(Request(0, BlobNamed("got"), true, &got), kOk);
        EXPECT_EQ(write(asked[1], "", 1), 1);
        while (true) pause();
      }
      kungfu_shutdown();
    };
    const auto when = [&] {
      char byte;
      if (crashes) EXPECT_EQ(read(asked[0], &byte, 1), 1);
    };
    InPeersOneKilled(2, body, crashes ? 1 : -1, when);
    close(asked[0]);
    close(asked[1]);
  }
}

}  // namespace
}  // namespace kungfu::testing
