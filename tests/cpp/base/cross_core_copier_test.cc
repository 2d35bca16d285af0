#include "ops/base/cross_core_copier.h"

#include <string>

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

constexpr size_t kBytes = 64 << 10;

// What a copy of kBytes takes on a machine, in seconds.
struct Machine {
  double plain, past_caches;
};
constexpr Machine kNear = {5e-6, 6e-6}, kFar = {30e-6, 5e-6};

// Makes so many copies, and returns how many of them with plain stores.
int CountPlain(StoreChoice* choice, const Machine& machine, int copies) {
  int plain = 0;
  for (int i = 0; i < copies; ++i) {
    const StoreChoice::Stores stores = choice->Next();
    plain += stores == StoreChoice::kPlain;
    choice->Took(stores, kBytes, Seconds(stores == StoreChoice::kPlain ? machine.plain : machine.past_caches));
  }
  return plain;
}

KF_TEST(StoreChoice, IsPlainWhereTheReaderIsNear) {
  StoreChoice choice;
  EXPECT_GE(CountPlain(&choice, kNear, 1000), 970);
  EXPECT_TRUE(choice.best() == StoreChoice::kPlain);
}

KF_TEST(StoreChoice, IsPastCachesWhereTheReaderIsFar) {
  StoreChoice choice;
  EXPECT_LE(CountPlain(&choice, kFar, 1000), 40);
  EXPECT_TRUE(choice.best() == StoreChoice::kPastCaches);
}

KF_TEST(StoreChoice, TriesEitherTwiceFirst) {
  for (const Machine& machine : {kNear, kFar}) {
    StoreChoice choice;
    EXPECT_EQ(CountPlain(&choice, machine, 4), 2);
    EXPECT_EQ(choice.best() == StoreChoice::kPlain, machine.plain < machine.past_caches);
  }
}

KF_TEST(StoreChoice, IsPlainWhereThatCostsLittle) {
  StoreChoice little, much;
  EXPECT_GE(CountPlain(&little, {9e-6, 5e-6}, 1000), 970);
  EXPECT_LE(CountPlain(&much, {11e-6, 5e-6}, 1000), 40);
}

KF_TEST(StoreChoice, IsPastCachesFromItsWorthOn) {
  StoreChoice little(1.3), much(1.3);
  EXPECT_GE(CountPlain(&little, {6e-6, 5e-6}, 1000), 970);
  EXPECT_LE(CountPlain(&much, {7e-6, 5e-6}, 1000), 40);
}

KF_TEST(StoreChoice, IsSoonBackAfterAMistake) {
  StoreChoice choice;
  CountPlain(&choice, kNear, 1000);
  for (int i = 0; i < 2; ++i) choice.Took(StoreChoice::kPlain, kBytes, Seconds(10e-3));
  EXPECT_TRUE(choice.best() == StoreChoice::kPastCaches);
  CountPlain(&choice, kNear, 4);
  EXPECT_TRUE(choice.best() == StoreChoice::kPlain);
}

KF_TEST(StoreChoice, FollowsThreadsThatMove) {
  StoreChoice choice;
  for (int move = 0; move < 3; ++move) {
    CountPlain(&choice, kNear, 1000);
    EXPECT_LE(CountPlain(&choice, kFar, 200), 20);
    CountPlain(&choice, kFar, 1000);
    EXPECT_GE(CountPlain(&choice, kNear, 1000), 900);
  }
}

KF_TEST(StoreChoice, IsNotMovedByOneInterruption) {
  StoreChoice choice;
  CountPlain(&choice, kNear, 1000);
  choice.Took(StoreChoice::kPlain, kBytes, Seconds(10e-3));
  EXPECT_TRUE(choice.best() == StoreChoice::kPlain);
  CountPlain(&choice, kFar, 1000);
  choice.Took(StoreChoice::kPastCaches, kBytes, Seconds(10e-3));
  EXPECT_TRUE(choice.best() == StoreChoice::kPastCaches);
}

int plain_copies = 0, copies_past_caches = 0;

void SlowPlain(char*, const char*, size_t) {
  ++plain_copies;
  for (const Deadline end = After(Seconds(100e-6)); Clock::now() < end;) {
  }
}

void QuickPastCaches(char*, const char*, size_t) { ++copies_past_caches; }

KF_TEST(CrossCoreCopier, TakesTheQuickerStoresUnlessItIsShort) {
  CrossCoreCopier copier(SlowPlain, QuickPastCaches);
  for (int i = 0; i < 400; ++i) copier.Copy(nullptr, nullptr, kBytes);
  EXPECT_LE(plain_copies, 40);
  plain_copies = copies_past_caches = 0;
  copier.Copy(nullptr, nullptr, 1023);
  copier.Copy(nullptr, nullptr, 1024);
  EXPECT_EQ(plain_copies, 1);
  EXPECT_EQ(copies_past_caches, 1);
}

KF_TEST(CrossCoreCopier, TakesWhatIsShortAndWhatIsLong) {
  CrossCoreCopier copier;
  std::string wrong;
  for (int time = 0; time < 50; ++time) {
    for (const size_t size : {0, 1, 1023, 1024, 8191, 8192, 70001}) {
      std::string from(size, '\0'), to(size + 2, '#');
      for (size_t i = 0; i < size; ++i) from[i] = static_cast<char>(i * 7 + time);
      copier.Copy(&to[1], from.data(), size);
      if (to != "#" + from + "#") wrong += std::to_string(size) + " bytes; ";
    }
  }
  EXPECT_EQ(wrong, "");
}

}  // namespace
}  // namespace kungfu
