// isotone generate: one answer to one prompt, streamed to the terminal or reported as one JSON object.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/common_flags.h"
#include "cli/common_interrupt.h"
#include "serve/admission.h"
#include "serve/report.h"

namespace isotone::cli {
namespace {

struct Flags {
  ModelFlags model;
  std::string prompt;
  std::string tokens;
  std::int64_t max_tokens = 128;
  nn::SamplingParams sampling;
  std::vector<std::string> stop;
  bool chat = false;
  bool ignore_eos = false;
  bool json = false;
};

int run(Flags& f) {
  Interrupts interrupts;
  const std::unique_ptr<serve::LoadedModel> model = serve::load_model(f.model.path, f.model.options);
  serve::GenerationRequest request;
  if (!f.tokens.empty()) {
    request.prompt = serve::parse_ids(f.tokens, model->model->vocab_size());
  } else {
    const std::string text = f.prompt == "-" ? read_all("-") : f.prompt;
    request.prompt = f.chat ? serve::encode_chat(*model, {{"user", text}}) : serve::encode_prompt(*model, text);
  }
  request.max_tokens = f.max_tokens;
  request.sampling = f.sampling;
  request.sampling.logprobs = f.json;
  request.stop = f.stop;
  if (!f.ignore_eos) {
    request.stop_ids = model->stop_ids;
  }
  serve::Conversation conversation(*model->model);
  const auto print = [](std::string_view text, std::span<const nn::Sample>) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  const serve::Generation g = serve::generate(conversation, model->tokenizer, request,
                                              f.json ? serve::OnPiece() : serve::OnPiece(print), interrupts.next());
  if (f.json) {
    fmt::print("{}\n", serve::generation_json(g, model->load_seconds));
    std::fflush(stdout);  // before the model's memory is taken apart
  } else {
    fmt::print("\n");
    if (isatty(STDERR_FILENO) != 0) {
      fmt::print(stderr, "{}\n", serve::generation_summary(g, model->load_seconds));
    }
  }
  return g.reason == serve::FinishReason::cancelled ? 1 : 0;
}

}  // namespace

void add_generate_command(CLI::App& app, int& exit_code) {
  auto f = std::make_shared<Flags>();
  CLI::App* c = app.add_subcommand("generate", "Continue a text, or answer one question");
  add_model_flags(*c, f->model);
  auto* prompt = c->add_option("-p,--prompt", f->prompt, "The prompt; - reads it from standard input");
  auto* tokens = c->add_option("--tokens", f->tokens, "The prompt as token ids: 1,2,3");
  prompt->excludes(tokens);
  c->add_option("-n,--max-tokens", f->max_tokens, "Most tokens to generate; -1: until the context is full")
      ->check(at_least(-1))
      ->capture_default_str();
  auto* chat = c->add_flag("--chat", f->chat, "Put the prompt into the model's chat template as the user's message");
  chat->excludes(tokens);
  c->add_flag("--ignore-eos", f->ignore_eos, "Go on where the model would end its answer (for measuring)");
  add_sampling_flags(*c, f->sampling, f->stop);
  c->add_flag("--json", f->json,
              "Print one object: text, tokens, logprobs (of the unmodified model), prompt_tokens, timings");
  c->footer(
      "Examples:\n"
      "  isotone generate model.gguf -p \"The sea is\" -n 40\n"
      "  isotone generate model.gguf --chat -p \"Why is the sky blue?\" --temperature 0\n"
      "  isotone generate model.gguf --tokens 1,504,2 -n 8 --temperature 0 --json\n"
      "  cat notes.txt | isotone generate model.gguf --chat -p -");
  c->callback([f, prompt, tokens, &exit_code] {
    if (prompt->count() + tokens->count() == 0) {
      throw CLI::RequiredError("generate: -p TEXT or --tokens IDS");
    }
    check_sampling(f->sampling);
    exit_code = run(*f);
  });
}

}  // namespace isotone::cli
