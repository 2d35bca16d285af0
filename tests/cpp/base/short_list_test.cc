#include "ops/base/short_list.h"

#include <string>
#include <utility>

#include "tests/cpp/testing.h"

namespace kungfu {
namespace {

std::string Text(const ShortList<int>& list) {
  std::string text;
  for (const int element : list) text += std::to_string(element) + " ";
  return text;
}

ShortList<int> UpTo(int size) {
  ShortList<int> list;
  for (int i = 1; i <= size; ++i) list.push_back(i);
  return list;
}

KF_TEST(ShortList, KeepsAsManyAsItIsGiven) {
  EXPECT_TRUE(ShortList<int>().empty());
  EXPECT_EQ(Text(UpTo(1)), "1 ");
  EXPECT_EQ(Text(UpTo(2)), "1 2 ");
  EXPECT_EQ(Text(UpTo(5)), "1 2 3 4 5 ");
  EXPECT_EQ(Text({7, 8, 9}), "7 8 9 ");
}

KF_TEST(ShortList, IsCopiedAndMovedWhole) {
  for (const int size : {0, 1, 2, 3, 9}) {
    const std::string expected = Text(UpTo(size));
    ShortList<int> list = UpTo(size);
    ShortList<int> copy = list, assigned = UpTo(4);
    assigned = copy;
    EXPECT_EQ(Text(assigned), expected);
    ShortList<int> moved = std::move(copy);
    EXPECT_EQ(Text(moved), expected);
    EXPECT_TRUE(copy.empty());
    copy = std::move(moved);
    EXPECT_EQ(Text(copy), expected);
    EXPECT_TRUE(moved.empty());
    moved.push_back(3);
    EXPECT_EQ(Text(moved), "3 ");
    EXPECT_EQ(Text(list), expected);
  }
}

KF_TEST(ShortList, IsWrittenInPlace) {
  for (const int size : {2, 3}) {
    ShortList<int> list = UpTo(size);
    list[0] = 10;
    list.back() = 20;
    for (int& element : list) ++element;
    EXPECT_EQ(list[0], 11);
    EXPECT_EQ(list[size - 1], 21);
  }
}

KF_TEST(ShortList, TakesOthersBehindItsOwn) {
  ShortList<int> list = UpTo(1);
  const ShortList<int> three = UpTo(3);
  list.Append(three.begin(), three.end());
  EXPECT_EQ(Text(list), "1 1 2 3 ");
}

}  // namespace
}  // namespace kungfu
