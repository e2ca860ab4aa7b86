// One thread that answers requests in the order of their arrival. Kernels use all cores, so one answer at a time is
// the whole schedule; batching is another component's work.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "serve/generation.h"
#include "serve/loaded_model.h"

namespace isotone::serve {

/// A request on its way. The callbacks run on the queue's thread; exactly one of `on_done` and `on_error` is called,
/// unless the job is cancelled while it waits: then neither is.
struct GenerationJob {
  GenerationRequest request;
  std::function<void()> on_start;  // may be empty, as may on_piece
  OnPiece on_piece;
  std::function<void(Generation)> on_done;
  std::function<void(std::string message)> on_error;
  std::stop_source stop;
};

class GenerationQueue {
 public:
  GenerationQueue(LoadedModel& model, int max_waiting);
  /// Cancels everything and joins the thread.
  ~GenerationQueue();
  GenerationQueue(const GenerationQueue&) = delete;
  GenerationQueue& operator=(const GenerationQueue&) = delete;

  /// False if max_waiting jobs wait already.
  bool submit(std::shared_ptr<GenerationJob> job);
  /// Ends the job now: takes it out if it waits, stops it after its current token if it runs.
  void cancel(const std::shared_ptr<GenerationJob>& job);
  [[nodiscard]] int waiting() const;
  [[nodiscard]] bool running() const;

 private:
  void work(const std::stop_token& stop);

  LoadedModel* model_;
  int max_waiting_;
  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<std::shared_ptr<GenerationJob>> jobs_;
  std::shared_ptr<GenerationJob> current_;
  std::jthread thread_;  // last: starts when all else is there, joined first
};

}  // namespace isotone::serve
