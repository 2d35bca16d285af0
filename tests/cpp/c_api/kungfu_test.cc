// The C interface as its callers see it: through kungfu.h alone.

#include "ops/c_api/kungfu.h"

#include <future>
#include <string>
#include <vector>

#include "ops/plan/strategy.h"
#include "tests/cpp/c_api/processes.h"
#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

struct Result {
  int code;
  std::string message;
};

// One operation: hands its Done and itself to a function of the core.
class Call {
 public:
  static void Done(void* arg, int code, const char* message) {
    static_cast<Call*>(arg)->promise_.set_value({code, message});
  }
  bool done() const { return result_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  // The child's alarm ends a wait that is too long.
  Result Wait() { return result_.get(); }

 private:
  std::promise<Result> promise_;
  std::future<Result> result_ = promise_.get_future();
};

kungfu_options Named(const char* name) {
  kungfu_options options{};
  options.name = name;
  options.dtype = KUNGFU_FLOAT32;
  options.op = KUNGFU_SUM;
  return options;
}

uint64_t AllReduce(std::vector<float>* values, const kungfu_options& options, Call* call) {
  const kungfu_span span{values->data(), values->data(), values->size()};
  return kungfu_all_reduce(&span, 1, &options, &Call::Done, call);
}

Result AllReduceAndWait(const kungfu_options& options) {
  std::vector<float> values(3);
  Call call;
  AllReduce(&values, options, &call);
  return call.Wait();
}

const kungfu_setting* SettingNamed(const std::string& name) {
  for (int i = 0; const kungfu_setting* setting = kungfu_get_setting(i); ++i) {
    if (setting->name == name) return setting;
  }
  return nullptr;
}

KF_TEST(CApi, ListsTheSettings) {
  const kungfu_setting* warning = SettingNamed("KUNGFU_STALL_WARNING");
  ASSERT_TRUE(warning != nullptr);
  EXPECT_CONTAINS(warning->meaning, "time until a warning ");
  EXPECT_EQ(std::string(warning->type), "a number above 0, at most 1e9");
  EXPECT_EQ(std::string(warning->unit), "seconds");
  EXPECT_EQ(std::string(warning->default_text), "10");
  EXPECT_FALSE(warning->internal || warning->secret);
  const kungfu_setting* self = SettingNamed("KUNGFU_SELF");
  ASSERT_TRUE(self != nullptr);
  EXPECT_TRUE(self->internal && !self->secret);
  EXPECT_EQ(std::string(self->unit) + self->default_text, "");
  EXPECT_TRUE(SettingNamed("KUNGFU_SECRET")->secret);
  EXPECT_TRUE(kungfu_get_setting(-1) == nullptr);
}

KF_TEST(CApi, NeedsNoPeerToSpeakOfItself) {
  EXPECT_EQ(kungfu_abi_version(), KUNGFU_ABI_VERSION);
  EXPECT_NE(std::string(kungfu_version()), "");
  EXPECT_EQ(std::string(kungfu_strategy_name(0)), "AUTO");
  EXPECT_EQ(std::string(kungfu_strategy_name(kNumStrategies - 1)), "HIERARCHY");
  for (const int none : {-1, kNumStrategies}) EXPECT_TRUE(kungfu_strategy_name(none) == nullptr);
  EXPECT_EQ(kungfu_check_setting("KUNGFU_STRATEGY", "ring"), kOk);
  EXPECT_NE(kungfu_check_setting("KUNGFU_STRATEGY", "mesh"), kOk);
  EXPECT_CONTAINS(kungfu_last_error(), "KUNGFU_STRATEGY='mesh': expected AUTO, STAR, ");
  EXPECT_NE(kungfu_check_setting("KUNGFU_SPIN", "long"), kOk);
  EXPECT_CONTAINS(kungfu_last_error(), "KUNGFU_SPIN='long': expected ");
  EXPECT_NE(kungfu_check_setting("KUNGFU_MINE", "x"), kOk);
  EXPECT_CONTAINS(kungfu_last_error(), "KUNGFU_MINE: there is no such variable");
  EXPECT_GE(kungfu_longest_name(), 64u);
  EXPECT_EQ(kungfu_digest("abc", 3), kungfu_digest("abcd", 3));
  EXPECT_NE(kungfu_digest("abc", 3), kungfu_digest("abcd", 4));
  kungfu_statistics statistics;
  kungfu_get_statistics(&statistics);
  EXPECT_EQ(statistics.operations, 0u);
  EXPECT_EQ(kungfu_completed("x"), 0u);
}

KF_TEST(CApi, AProcessAloneIsOneOfOne) {
  InProcess({}, [] {
    EXPECT_EQ(kungfu_init(), kOk);
    EXPECT_EQ(kungfu_rank(), 0);
    EXPECT_EQ(kungfu_size(), 1);
    EXPECT_EQ(kungfu_local_rank(), 0);
    EXPECT_EQ(kungfu_local_size(), 1);
    EXPECT_EQ(kungfu_host_count(), 1);
    EXPECT_EQ(kungfu_membership_version(), 0);
    EXPECT_NE(std::string(kungfu_peer_name(0)), "");
    for (const int nobody : {-1, 1}) EXPECT_EQ(std::string(kungfu_peer_name(nobody)), "");
    std::vector<float> values = {1, 2, 3};
    Call call;
    AllReduce(&values, Named("x"), &call);
    EXPECT_TRUE(call.done());
    EXPECT_EQ(call.Wait().code, kOk);
    EXPECT_TRUE(values == (std::vector<float>{1, 2, 3}));
    EXPECT_EQ(kungfu_completed("x"), 1u);
    for (const int wanted : {1, 0}) {
      kungfu_norms norms = {wanted, -1, -1};
      kungfu_options options = Named("x");
      options.norms = &norms;
      Call measured;
      AllReduce(&values, options, &measured);
      EXPECT_EQ(measured.Wait().code, kOk);
      EXPECT_EQ(norms.sent == 14 && norms.received == 14, wanted == 1);
      EXPECT_EQ(norms.sent != norms.sent && norms.received != norms.received, wanted == 0);
    }
  });
}

KF_TEST(CApi, WrongArgumentsAreTheOperationsError) {
  InProcess({}, [] {
    // Numbers of a byte, which is what the core makes of them, come from beyond it.
    for (const int32_t number : {-1, KUNGFU_BOOL + 1, 255, 256 + KUNGFU_FLOAT32}) {
      kungfu_options options = Named("x");
      options.dtype = number;
      EXPECT_EQ(AllReduceAndWait(options).code, kInvalidArgument);
      options = Named("x");
      options.op = number;
      EXPECT_EQ(AllReduceAndWait(options).code, kInvalidArgument);
    }
    const std::string too_long(kungfu_longest_name() + 1, 'x');
    for (const char* name : {"", static_cast<const char*>(nullptr), too_long.c_str(), "kungfu/ping"}) {
      EXPECT_EQ(AllReduceAndWait(Named(name)).code, kInvalidArgument);
    }
    kungfu_options options = Named("x");
    options.root = 1;
    Call call;
    kungfu_broadcast(nullptr, 0, &options, &Call::Done, &call);
    const Result result = call.Wait();
    EXPECT_EQ(result.code, kInvalidArgument);
    EXPECT_CONTAINS(result.message, "broadcast 'x'");
    kungfu_statistics statistics;
    kungfu_get_statistics(&statistics);
    EXPECT_EQ(statistics.failures, 13u);
  });
}

KF_TEST(CApi, APeerThatCannotStartSaysWhy) {
  InProcess({{"KUNGFU_SELF", "nonsense"}}, [] {
    EXPECT_EQ(kungfu_init(), kInvalidArgument);
    EXPECT_CONTAINS(kungfu_last_error(), "KUNGFU_SELF");
    EXPECT_EQ(kungfu_rank(), -1);
    EXPECT_EQ(std::string(kungfu_peer_name(0)), "");
    const Result result = AllReduceAndWait(Named("x"));
    EXPECT_EQ(result.code, kInvalidArgument);
    EXPECT_CONTAINS(result.message, "all_reduce 'x'");
    EXPECT_CONTAINS(result.message, "KUNGFU_SELF");
  });
}

KF_TEST(CApi, NothingWorksAfterTheEnd) {
  InProcess({}, [] {
    EXPECT_EQ(kungfu_init(), kOk);
    EXPECT_EQ(kungfu_shutdown(), kOk);
    EXPECT_EQ(kungfu_shutdown(), kOk);
    EXPECT_EQ(kungfu_size(), -1);
    EXPECT_EQ(AllReduceAndWait(Named("x")).code, kFailedPrecondition);
  });
}

void Barrier(const char* name) {
  Call call;
  const kungfu_options options = Named(name);
  kungfu_barrier(&options, &Call::Done, &call);
  EXPECT_EQ(call.Wait().code, kOk);
}

void ReduceAndCancel(int rank) {
  EXPECT_EQ(kungfu_rank(), rank);
  EXPECT_EQ(kungfu_size(), 2);
  EXPECT_EQ(kungfu_local_size(), 2);
  EXPECT_EQ(std::string(kungfu_peer_name(0)), "127.0.0.1:1");
  EXPECT_EQ(std::string(kungfu_peer_name(1)), "127.0.0.1:2");
  std::vector<float> values = {1.f + rank, 10};
  Call sum;
  AllReduce(&values, Named("sum"), &sum);
  EXPECT_EQ(sum.Wait().code, kOk);
  EXPECT_TRUE(values == (std::vector<float>{3, 20}));

  // One cancels, and says why; the other comes to it later, and gets the same error.
  if (rank == 1) Barrier("cancelled");
  std::vector<float> never(1);
  Call call;
  const uint64_t operation = AllReduce(&never, Named("never"), &call);
  kungfu_statistics statistics;
  kungfu_get_statistics(&statistics);
  if (rank == 0) EXPECT_EQ(statistics.pending, 1u);
  if (rank == 0) kungfu_cancel(operation, kAborted, "the test says so");
  const Result result = call.Wait();
  if (rank == 0) Barrier("cancelled");
  EXPECT_EQ(result.code, kAborted);
  EXPECT_CONTAINS(result.message, "all_reduce 'never' was cancelled at rank 0");
  EXPECT_CONTAINS(result.message, "the test says so");

  kungfu_get_statistics(&statistics);
  EXPECT_EQ(statistics.pending, 0u);
  EXPECT_EQ(statistics.failures, 1u);
  EXPECT_EQ(statistics.connections, 2u);

  // Until here nobody has left.
  Barrier("end");
  EXPECT_EQ(kungfu_shutdown(), kOk);
}

KF_TEST(CApi, TwoPeersReduceAndCancel) { InPeers(2, ReduceAndCancel); }

}  // namespace
}  // namespace kungfu::testing
