// The queue keeps one conversation between requests, so that a chat's next turn does not read its history again.
#include "serve/generation_queue.h"

#include <algorithm>

namespace isotone::serve {

GenerationQueue::GenerationQueue(LoadedModel& model, int max_waiting)
    : model_(&model), max_waiting_(max_waiting), thread_([this](const std::stop_token& stop) { work(stop); }) {}

GenerationQueue::~GenerationQueue() {
  thread_.request_stop();
  const std::lock_guard lock(mutex_);
  jobs_.clear();
  if (current_) {
    current_->stop.request_stop();
  }
}

bool GenerationQueue::submit(std::shared_ptr<GenerationJob> job) {
  {
    const std::lock_guard lock(mutex_);
    if (static_cast<int>(jobs_.size()) >= max_waiting_) {
      return false;
    }
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
  return true;
}

void GenerationQueue::cancel(const std::shared_ptr<GenerationJob>& job) {
  job->stop.request_stop();
  const std::lock_guard lock(mutex_);
  std::erase(jobs_, job);
}

int GenerationQueue::waiting() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(jobs_.size());
}

bool GenerationQueue::running() const {
  const std::lock_guard lock(mutex_);
  return current_ != nullptr;
}

void GenerationQueue::work(const std::stop_token& stop) {
  std::optional<Conversation> conversation;
  for (;;) {
    std::shared_ptr<GenerationJob> job;
    {
      std::unique_lock lock(mutex_);
      current_ = nullptr;
      if (!wake_.wait(lock, stop, [&] { return !jobs_.empty(); }) || stop.stop_requested()) {
        return;
      }
      job = std::move(jobs_.front());
      jobs_.pop_front();
      current_ = job;
    }
    try {
      if (job->on_start) {
        job->on_start();
      }
      if (!conversation) {
        conversation.emplace(*model_->model);
      }
      Generation g = generate(*conversation, model_->tokenizer, job->request, job->on_piece, job->stop.get_token());
      job->on_done(std::move(g));
    } catch (const std::exception& e) {
      conversation.reset();  // whatever went wrong, its cache is not trusted again
      job->on_error(e.what());
    }
  }
}

}  // namespace isotone::serve
