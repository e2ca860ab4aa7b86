// isotone chat: a conversation in the terminal, or with lines from a pipe.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/common_flags.h"
#include "cli/common_interrupt.h"
#include "serve/chat_session.h"

namespace isotone::cli {
namespace {

struct Flags {
  ModelFlags model;
  serve::ChatSession::Options options;
};

int run(Flags& f) {
  Interrupts interrupts;
  const std::unique_ptr<serve::LoadedModel> model = serve::load_model(f.model.path, f.model.options);
  serve::ChatSession session(*model, f.options, [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  });
  const bool terminal = isatty(STDIN_FILENO) != 0;
  if (terminal) {
    fmt::print("{} (/help lists commands, Ctrl-C stops an answer, /quit leaves)\n", model->name);
  }
  std::string line;
  for (;;) {
    if (terminal) {
      fmt::print("> ");
      std::fflush(stdout);
    }
    if (!std::getline(std::cin, line) || session.handle(line, interrupts.next()) == serve::ChatSession::Next::quit) {
      break;
    }
  }
  return 0;
}

}  // namespace

void add_chat_command(CLI::App& app, int& exit_code) {
  auto f = std::make_shared<Flags>();
  f->options.sampling.temperature = 0.7F;
  f->options.sampling.top_p = 0.95F;
  CLI::App* c = app.add_subcommand("chat", "Talk to a model");
  add_model_flags(*c, f->model);
  c->add_option("--system", f->options.system, "System message");
  c->add_option("-n,--max-tokens", f->options.max_tokens, "Most tokens of an answer; -1: until the context is full")
      ->check(at_least(-1))
      ->capture_default_str();
  add_sampling_flags(*c, f->options.sampling, f->options.stop);
  c->footer(
      "Examples:\n"
      "  isotone chat model.gguf\n"
      "  isotone chat model.gguf --system \"Answer in one sentence.\" --temperature 0\n"
      "  printf 'Hello\\nAnd in French?\\n' | isotone chat model.gguf");
  c->callback([f, &exit_code] {
    check_sampling(f->options.sampling);
    exit_code = run(*f);
  });
}

}  // namespace isotone::cli
