#include "ops/memory/arena.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "tests/cpp/testing.h"

namespace kungfu::testing {
namespace {

constexpr size_t kSize = 16 << 20;

char* AllocateChars(Arena* arena, size_t bytes) { return static_cast<char*>(arena->Allocate(bytes)); }

KF_TEST(Arena, GivesWholePages) {
  const auto arena = std::move(*Arena::Create(kSize));
  const size_t page = SharedMemory::PageSize();
  char* first = AllocateChars(arena.get(), 1);
  char* second = AllocateChars(arena.get(), page + 1);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % page, 0u);
  EXPECT_EQ(second - first, static_cast<ptrdiff_t>(page));
  EXPECT_EQ(arena->statistics().in_use, 3 * page);
  EXPECT_TRUE(arena->Owns(first) && arena->Owns(second));
  EXPECT_EQ(*arena->Find(second + 5, 10) - *arena->Find(first, 0), page + 5);
  int elsewhere;
  EXPECT_FALSE(arena->Owns(&elsewhere));
  EXPECT_FALSE(arena->Find(&elsewhere, 1).has_value());
  EXPECT_EQ(arena->Free(&elsewhere), 0u);
  EXPECT_EQ(arena->SizeOf(&elsewhere), 0u);
  EXPECT_EQ(arena->SizeOf(second), 2 * page);
  EXPECT_EQ(arena->Free(first), page);
  EXPECT_EQ(arena->Free(second), 2 * page);
  EXPECT_EQ(arena->statistics().in_use, 0u);
  EXPECT_EQ(arena->statistics().most_used, 3 * page);
}

KF_TEST(Arena, UsesFreedPagesAgain) {
  const auto arena = std::move(*Arena::Create(kSize));
  char* first = AllocateChars(arena.get(), 1 << 20);
  char* second = AllocateChars(arena.get(), 1 << 20);
  arena->Free(first);
  EXPECT_TRUE(AllocateChars(arena.get(), 1 << 20) == first);
  arena->Free(first);
  arena->Free(second);
  // Neighbours have become one block again.
  EXPECT_TRUE(AllocateChars(arena.get(), kSize) == first);
}

KF_TEST(Arena, IsBounded) {
  const auto arena = std::move(*Arena::Create(kSize));
  EXPECT_TRUE(arena->Allocate(kSize + 1) == nullptr);
  void* all = arena->Allocate(kSize);
  EXPECT_TRUE(all != nullptr);
  EXPECT_TRUE(arena->Allocate(1) == nullptr);
  arena->Free(all);
  EXPECT_TRUE(arena->Allocate(1) != nullptr);
}

KF_TEST(Arena, BlocksOfManyThreadsDoNotOverlap) {
  const auto arena = std::move(*Arena::Create(kSize));
  std::vector<std::thread> threads;
  for (int which = 0; which < 4; ++which) {
    threads.emplace_back([&arena, which] {
      std::mt19937 random(which);
      std::vector<std::pair<char*, size_t>> blocks;
      for (int i = 0; i < 3000; ++i) {
        const size_t size = 1 + random() % (200 << 10);
        char* block = AllocateChars(arena.get(), size);
        if (block != nullptr) {
          std::memset(block, which, size);
          blocks.push_back({block, size});
        }
        if (block == nullptr || blocks.size() > 20) {
          std::swap(blocks[random() % blocks.size()], blocks.back());
          const auto [data, bytes] = blocks.back();
          EXPECT_TRUE(data[0] == which && data[bytes - 1] == which);
          arena->Free(data);
          blocks.pop_back();
        }
      }
      for (const auto& [data, bytes] : blocks) arena->Free(data);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(arena->statistics().in_use, 0u);
  EXPECT_TRUE(arena->Allocate(kSize) != nullptr);
}

KF_TEST(Arena, WhatIsWithdrawnIsNotUsedAgain) {
  const auto arena = std::move(*Arena::Create(kSize));
  const size_t page = SharedMemory::PageSize();
  char* block = AllocateChars(arena.get(), 4 * page);
  std::memset(block, 'x', 4 * page);
  arena->Withdraw(block + page, page);
  EXPECT_EQ(block[page - 1], 'x');
  EXPECT_EQ(block[page], 0);
  EXPECT_TRUE(arena->Find(block, page).has_value());
  EXPECT_FALSE(arena->Find(block, page + 1).has_value());
  EXPECT_TRUE(arena->Find(block + 2 * page, page).has_value());
  arena->Free(block);
  EXPECT_TRUE(AllocateChars(arena.get(), page) == block + 4 * page);
  EXPECT_EQ(arena->statistics().retired, 4 * page);
}

KF_TEST(Arena, AForkedChildHasItsOwnCopy) {
  const auto arena = std::move(*Arena::Create(kSize));
  char* block = AllocateChars(arena.get(), 100);
  std::strcpy(block, "parent");
  const pid_t child = fork();
  if (child == 0) {
    const bool same = std::strcmp(block, "parent") == 0;
    std::strcpy(block, "child");
    const bool none = arena->Allocate(100) == nullptr && !arena->Find(block, 1);
    _exit(same && none && arena->Free(block) != 0 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(std::string(block), "parent");
  EXPECT_TRUE(arena->Allocate(100) != nullptr);
}

}  // namespace
}  // namespace kungfu::testing
