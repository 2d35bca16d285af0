#include "ops/collective/direct_group.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "ops/base/logging.h"

namespace kungfu {
namespace {

// The writing end of another process's pipe. Open for reading, too: it then never is without a reader.
StatusOr<UniqueFd> OpenBell(int pid, const DirectEndpoint& endpoint) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(endpoint.bell);
  UniqueFd bell(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (bell.get() < 0) return ErrnoError(errno, path);
  struct stat info;
  if (fstat(bell.get(), &info) != 0 || !S_ISFIFO(info.st_mode) || info.st_ino != endpoint.bell_inode) {
    return FailedPreconditionError(path + " is not its pipe");
  }
  return bell;
}

}  // namespace

DirectGroup::DirectGroup(EventLoop* loop, Arena* arena, std::vector<int> ranks, int place)
    : loop_(loop),
      arena_(arena),
      ranks_(std::move(ranks)),
      place_(place),
      peers_(ranks_.size()),
      copiers_(ranks_.size()) {
  for (int slot = kSlots - 1; slot >= 0; --slot) free_slots_.push_back(slot);
  for (int pad = kPads - 1; pad >= 0; --pad) free_pads_.push_back(pad);
}

StatusOr<std::unique_ptr<DirectGroup>> DirectGroup::Make(EventLoop* loop, Arena* arena, std::vector<int> ranks,
                                                         int place) {
  KF_DCHECK(loop->InLoop());
  std::unique_ptr<DirectGroup> group(new DirectGroup(loop, arena, std::move(ranks), place));
  StatusOr<SharedMemory> board = SharedMemory::Create("kungfu-board", sizeof(Board));
  if (!board.ok()) return board.status();
  group->board_ = std::move(*board);
  auto* mine = reinterpret_cast<Board*>(group->board_.data());
  group->my_asleep_ = &mine->asleep;
  group->my_slots_ = mine->slots;
  group->my_pads_ = mine->pads;
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK) != 0) return ErrnoError(errno, "a pipe to be woken by");
  UniqueFd bell(pipe_ends[0]);
  group->bell_writer_ = UniqueFd(pipe_ends[1]);
  struct stat info;
  if (fstat(bell.get(), &info) != 0) return ErrnoError(errno, "a pipe to be woken by");
  group->bell_ = std::move(bell);
  group->endpoint_ = {group->board_.address(), arena->address(), info.st_ino, group->bell_.get(), 0};
  loop->WatchOnLoop(group->bell_.get(), EPOLLIN, group.get());
  loop->AddPollableOnLoop(group.get());
  return group;
}

DirectGroup::~DirectGroup() {
  if (bell_.get() < 0) return;
  loop_->RemovePollableOnLoop(this);
  loop_->UnwatchOnLoop(bell_.get());
}

Status DirectGroup::MeetOnLoop(const std::vector<DirectEndpoint>& endpoints) {
  KF_DCHECK(loop_->InLoop());
  for (int place = 0; place < size(); ++place) {
    if (place == place_) continue;
    KF_RETURN_IF_ERROR(Meet(endpoints[place], &peers_[place])
                           .WithContext("rank " + std::to_string(ranks_[place_]) + " cannot use the memory of rank " +
                                        std::to_string(ranks_[place])));
  }
  return OkStatus();
}

Status DirectGroup::Meet(const DirectEndpoint& endpoint, Peer* peer) {
  StatusOr<SharedMemory> board = SharedMemory::Open(endpoint.board);
  if (!board.ok()) return board.status();
  if (board->size() != sizeof(Board)) return FailedPreconditionError("it is of another version");
  StatusOr<SharedMemory> arena = SharedMemory::Open(endpoint.arena);
  if (!arena.ok()) return arena.status();
  StatusOr<UniqueFd> bell = OpenBell(endpoint.board.pid, endpoint);
  if (!bell.ok()) return bell.status();
  peer->board = std::move(*board);
  peer->arena = std::move(*arena);
  peer->bell = std::move(*bell);
  auto* theirs = reinterpret_cast<Board*>(peer->board.data());
  peer->asleep = &theirs->asleep;
  peer->slots = theirs->slots;
  peer->pads = theirs->pads;
  return OkStatus();
}

int DirectGroup::TakeSlotOnLoop() {
  KF_DCHECK(loop_->InLoop());
  if (free_slots_.empty()) return -1;
  const int slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void DirectGroup::ReturnSlotOnLoop(int slot) {
  KF_DCHECK(loop_->InLoop());
  free_slots_.push_back(slot);
}

int DirectGroup::TakePadOnLoop() {
  KF_DCHECK(loop_->InLoop());
  if (free_pads_.empty()) return -1;
  const int pad = free_pads_.back();
  free_pads_.pop_back();
  return pad;
}

void DirectGroup::ReturnPadOnLoop(int pad) {
  KF_DCHECK(loop_->InLoop());
  free_pads_.push_back(pad);
}

void DirectGroup::FinishOnLoop(int slot) {
  KF_DCHECK(loop_->InLoop());
  my_slots_[slot].finished.fetch_add(1);
  RingOnLoop();
}

// Either we see that a peer sleeps, or it sees what we wrote when it looks once more: each writes before it reads.
void DirectGroup::RingOnLoop() {
  KF_DCHECK(loop_->InLoop());
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (const Peer& peer : peers_) {
    if (peer.asleep == nullptr || peer.asleep->load() == 0) continue;
    const char ring = 0;
    // It fails only when the pipe is full: then there is enough to wake up from.
    [[maybe_unused]] const ssize_t written = write(peer.bell.get(), &ring, 1);
  }
}

void DirectGroup::TakeBackOnLoop(int slot) {
  KF_DCHECK(loop_->InLoop());
  my_slots_[slot].finished.fetch_sub(1);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

bool DirectGroup::SleepOnLoop() {
  KF_DCHECK(loop_->InLoop());
  if (waiters_.empty()) return true;
  sleeps_ = true;
  my_asleep_->store(1);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return std::none_of(waiters_.begin(), waiters_.end(), [](DirectWaiter* waiter) { return waiter->IsReadyOnLoop(); });
}

// Others look there: it is written only when it changes.
void DirectGroup::WakeOnLoop() {
  KF_DCHECK(loop_->InLoop());
  if (std::exchange(sleeps_, false)) my_asleep_->store(0, std::memory_order_relaxed);
}

bool DirectGroup::PollOnLoop() {
  KF_DCHECK(loop_->InLoop());
  const auto ready =
      std::find_if(waiters_.begin(), waiters_.end(), [](DirectWaiter* waiter) { return waiter->IsReadyOnLoop(); });
  if (ready == waiters_.end()) return false;
  DirectWaiter* const waiter = *ready;
  waiters_.erase(ready);
  waiter->GoOnOnLoop();
  return true;  // the others have their turn next
}

void DirectGroup::OnEventsOnLoop(uint32_t) {
  KF_DCHECK(loop_->InLoop());
  char rings[64];
  while (read(bell_.get(), rings, sizeof(rings)) == sizeof(rings)) {
  }
}

}  // namespace kungfu
