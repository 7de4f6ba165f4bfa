#include "conformance/parallel.h"

#include <mutex>
#include <thread>

namespace attnfuse::conformance {

std::vector<Outcome> run_cases(std::vector<Executor>& executors, const std::vector<Case>& cases,
                               const Progress& progress) {
  std::vector<Outcome> outcomes(cases.size());
  std::mutex mutex;  // of `next` and the calls of progress
  std::size_t next = 0;
  const auto work = [&](std::size_t worker) {
    for (;;) {
      std::size_t mine;
      {
        const std::lock_guard lock(mutex);
        if (next == cases.size()) return;
        mine = next++;
        progress.begins(worker, cases[mine]);
      }
      outcomes[mine] = run_case(executors[worker], cases[mine]);
      const std::lock_guard lock(mutex);
      progress.ended(outcomes[mine]);
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t worker = 1; worker < executors.size(); ++worker) threads.emplace_back(work, worker);
  work(0);
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

}  // namespace attnfuse::conformance
