// `isotone chat` without the terminal: history, answers that stream, /commands. The command line hands in where lines
// come from and where text goes, so that tests and pipes use the same code.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "serve/generation.h"
#include "serve/loaded_model.h"

namespace isotone::serve {

class ChatSession {
 public:
  struct Options {
    std::string system;
    nn::SamplingParams sampling;
    std::int64_t max_tokens = -1;
    std::vector<std::string> stop;
  };
  /// Gets text to show, as it comes.
  using Write = std::function<void(std::string_view)>;

  /// The model outlives the session.
  ChatSession(LoadedModel& model, Options options, Write write);

  enum class Next { go_on, quit };
  /// Takes one line of the user: a /command, or a message, which is answered. Errors (a bad command, a full context,
  /// an unreadable file) are written, not thrown, and leave the history as it was. `stop` ends the answer only; what
  /// was said so far stays in the history.
  Next handle(const std::string& line, const std::stop_token& stop);

  [[nodiscard]] const std::vector<text::ChatMessage>& history() const { return history_; }
  [[nodiscard]] const Options& options() const { return options_; }

 private:
  Next command(const std::string& line);
  void answer(const std::string& message, const std::stop_token& stop);
  void set_parameter(std::string_view name, std::string_view value);
  void show_parameters() const;
  void save(const std::string& path) const;
  void load(const std::string& path);
  void reset();

  LoadedModel* model_;
  Options options_;
  Write write_;
  Conversation conversation_;
  std::vector<text::ChatMessage> history_;
};

}  // namespace isotone::serve
