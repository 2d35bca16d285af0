#include "ops/transport/lookout.h"

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

constexpr Seconds kLongest{0.5}, kSoon{1.9}, kLate{2};

// How many times it does not look until it does.
int Skips(Lookout* lookout) {
  int skips = 0;
  while (lookout->Begin() == Seconds(0)) ++skips;
  return skips;
}

KF_TEST(Lookout, LooksLessOftenWhereItIsInVain) {
  Lookout lookout(kLongest);
  EXPECT_EQ(Skips(&lookout), 0);
  for (int expected = 1; expected <= 1023; expected = 2 * expected + 1) {
    lookout.Missed(kSoon);
    EXPECT_EQ(Skips(&lookout), expected);
  }
  lookout.Missed(kSoon);
  EXPECT_EQ(Skips(&lookout), 1023);
}

KF_TEST(Lookout, LooksAgainWhereItPays) {
  Lookout lookout(kLongest);
  for (int i = 0; i < 4; ++i) {
    Skips(&lookout);
    lookout.Missed(kSoon);
  }
  EXPECT_EQ(Skips(&lookout), 15);
  for (int i = 0; i < 3; ++i) {
    lookout.Found();
    EXPECT_EQ(Skips(&lookout), 0);
  }
  lookout.Missed(kSoon);
  EXPECT_EQ(Skips(&lookout), 3);
}

KF_TEST(Lookout, WhatComesLateOrWithoutLookingSaysNothing) {
  Lookout lookout(kLongest);
  EXPECT_EQ(Skips(&lookout), 0);
  lookout.Missed(kLate);
  EXPECT_EQ(Skips(&lookout), 0);
  lookout.Missed(kSoon);
  EXPECT_TRUE(lookout.Begin() == Seconds(0));
  lookout.Missed(kSoon);
  EXPECT_EQ(Skips(&lookout), 0);
}

KF_TEST(Lookout, NeverLooksForNoTime) {
  Lookout lookout(Seconds(0));
  EXPECT_TRUE(lookout.Begin() == Seconds(0));
  lookout.Missed(Seconds(0));
  EXPECT_TRUE(lookout.Begin() == Seconds(0));
}

}  // namespace
}  // namespace kungfu
