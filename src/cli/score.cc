// isotone score: how likely a model finds a text.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/common_flags.h"
#include "serve/admission.h"
#include "serve/report.h"
#include "serve/scoring.h"

namespace isotone::cli {
namespace {

struct Flags {
  ModelFlags model;
  std::string file;
  std::int64_t window = 0;
  bool ids = false;
  bool per_token = false;
  bool json = false;
};

int run(Flags& f) {
  const std::string text = read_all(f.file);
  const std::unique_ptr<serve::LoadedModel> model = serve::load_model(f.model.path, f.model.options);
  const std::vector<std::int32_t> ids =
      f.ids ? serve::parse_ids(text, model->model->vocab_size()) : serve::encode_prompt(*model, text);
  const bool progress = isatty(STDERR_FILENO) != 0;
  const serve::Score score = serve::score(*model->model, ids, f.window, [&](std::int64_t done, std::int64_t total) {
    if (progress) {
      fmt::print(stderr, "\r{} of {} tokens{}", done, total, done == total ? "\n" : "");
      std::fflush(stderr);
    }
  });
  if (f.json) {
    fmt::print("{}\n", serve::score_json(score, ids));
  } else {
    fmt::print("{}", serve::score_text(score, ids, model->tokenizer, f.per_token));
  }
  return 0;
}

}  // namespace

void add_score_command(CLI::App& app, int& exit_code) {
  auto f = std::make_shared<Flags>();
  CLI::App* c = app.add_subcommand("score", "Perplexity and log-probability of each token of a text");
  add_model_flags(*c, f->model);
  c->add_option("FILE", f->file, "A text file in UTF-8; - reads standard input")->required();
  c->add_flag("--ids", f->ids, "FILE holds token ids, separated by spaces, commas or line ends");
  c->add_option("--window", f->window, "Tokens a long text is read by, overlapping by half (default: the context)")
      ->check(at_least(1));
  c->add_flag("--per-token", f->per_token, "Also print each token with its log-probability");
  c->add_flag("--json", f->json, "Print one object: perplexity, mean_nll, counted, tokens, logprobs");
  c->footer(
      "Examples:\n"
      "  isotone score model.gguf book.txt\n"
      "  echo \"The sea is blue.\" | isotone score model.gguf - --per-token\n"
      "  echo 1,504,2 | isotone score model.gguf - --ids --json");
  c->callback([f, &exit_code] { exit_code = run(*f); });
}

}  // namespace isotone::cli
