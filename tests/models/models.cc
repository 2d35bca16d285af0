// The protocols of shared memory, as the headers of ops/ describe them, on processors with a weak order of memory. Each
// is right, and the checker finds the fault of each of its weaker forms: so it would find one in the protocol.

#include "tests/models/boards.h"
#include "tests/models/loop.h"
#include "tests/models/ring.h"

int main() {
  using namespace kungfu::models;
  constexpr auto kRight = rl::test_result_success, kRace = rl::test_result_data_race;
  constexpr auto kAsleep = rl::test_result_deadlock, kWrong = rl::test_result_user_assert_failed;
  const bool results[] = {
      Finds<Ring<RingFault::kNone>>(kRight, "a ring"),
      Finds<Ring<RingFault::kWrittenTooEarly>>(kRace, "a ring that tells of bytes too early"),
      Finds<Ring<RingFault::kReadTooEarly>>(kRace, "a ring that gives room back too early"),
      Finds<Ring<RingFault::kReaderLooksBeforeItSays>>(kAsleep, "a ring whose reader looks, then says that it sleeps"),
      Finds<Ring<RingFault::kWriterLooksBeforeItTells>>(kAsleep, "a ring whose writer looks, then tells"),
      Finds<Notes<NotesFault::kNone, 2, 4>>(kRight, "notes of four operations"),
      Finds<Notes<NotesFault::kNone, 3, 2>>(kRight, "notes of three peers"),
      Finds<Notes<NotesFault::kStampTooEarly, 2, 4>>(kRace, "notes whose stamps come too early"),
      Finds<Notes<NotesFault::kReadTooEarly, 2, 4>>(kRace, "notes that are read too early"),
      Finds<Notes<NotesFault::kNoFenceBehindTheStamp, 3, 2>>(kAsleep, "notes without a fence behind the stamp"),
      Finds<Notes<NotesFault::kNoFenceInSleep, 3, 2>>(kAsleep, "notes without a fence before the last look"),
      Finds<Finished<CountFault::kNone>>(kRight, "a count"),
      Finds<Finished<CountFault::kCountTooEarly>>(kRace, "a count that comes too early"),
      Finds<Finished<CountFault::kNoFenceBehindTheCount>>(kAsleep, "a count without a fence before the bell"),
      Finds<Finished<CountFault::kNoFenceInSleep>>(kAsleep, "a count without a fence before the last look"),
      Finds<TakenBack<CountFault::kNone>>(kRight, "a count that is taken back"),
      Finds<TakenBack<CountFault::kNoFenceBehindTheCount>>(kWrong, "a count that is taken back without a fence"),
      Finds<TakenBack<CountFault::kNoFenceBehindTheReading>>(kWrong, "a count that is looked at before the data"),
      Finds<Loop<LoopFault::kNone>>(kRight, "a loop"),
      Finds<Loop<LoopFault::kPosterLooksTooEarly>>(kAsleep, "a loop whose poster looks too early"),
      Finds<Loop<LoopFault::kLoopLooksTooEarly>>(kAsleep, "a loop that looks too early"),
  };
  int failed = 0;
  for (const bool is_right : results) failed += !is_right;
  std::printf("%d passed, %d failed\n", static_cast<int>(std::size(results)) - failed, failed);
  return failed != 0;
}
