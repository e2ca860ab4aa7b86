// isotone serve: the OpenAI-compatible server.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/common_flags.h"
#include "serve/http_server.h"
#include "serve/report.h"

namespace isotone::cli {
namespace {

struct Flags {
  ModelFlags model;
  serve::ServerOptions options;
  std::string key_file;
  bool quiet = false;
  bool json = false;
};

std::string read_key(const std::string& file) {
  if (file.empty()) {
    const char* key = std::getenv("ISOTONE_API_KEY");
    return key != nullptr ? key : "";
  }
  std::string key = read_all(file);
  key.erase(key.find_last_not_of(" \t\r\n") + 1);
  require(!key.empty() && key.find_first_of(" \t\r\n") == std::string::npos,
          "the key file {} must hold one word, the key", file);
  return key;
}

int run(Flags& f) {
  f.options.api_key = read_key(f.key_file);
  if (!f.quiet) {
    f.options.log = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  }
  const std::unique_ptr<serve::LoadedModel> model = serve::load_model(f.model.path, f.model.options);
  serve::HttpServer server(*model, f.options);
  fmt::print("{}\n", serve::listening_text(model->name, f.options.host, server.port(), f.json));
  std::fflush(stdout);
  server.run(true);
  return 0;
}

}  // namespace

void add_serve_command(CLI::App& app, int& exit_code) {
  auto f = std::make_shared<Flags>();
  CLI::App* c = app.add_subcommand("serve", "Serve a model to OpenAI clients over HTTP");
  add_model_flags(*c, f->model);
  c->add_option("--host", f->options.host, "Address to listen on; others than loopback need a key")
      ->capture_default_str();
  c->add_option("--port", f->options.port, "Port; 0 takes a free one and prints it")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  c->add_option("--api-key-file", f->key_file,
                "File with the key that clients must send (or set ISOTONE_API_KEY); guards every route");
  c->add_option("--max-tokens", f->options.max_tokens, "Longest answer a client may ask for; 0: what the context holds")
      ->check(at_least(0))
      ->capture_default_str();
  c->add_option("--max-body", f->options.max_body, "Longest request body in bytes")
      ->check(at_least(1))
      ->capture_default_str();
  c->add_option("--max-queue", f->options.max_queue, "Requests that may wait; further ones get status 429")
      ->check(at_least(0))
      ->capture_default_str();
  c->add_option("--max-connections", f->options.max_connections, "Connections open at once; further ones get 503")
      ->check(at_least(1))
      ->capture_default_str();
  c->add_option("--read-timeout", f->options.read_timeout_s, "Seconds a request may take to arrive")
      ->check(CLI::Range(0.001, 86400.0))
      ->capture_default_str();
  c->add_flag("--quiet", f->quiet, "No line per request on standard error");
  c->add_flag("--json", f->json, "Print the address as one JSON object");
  c->footer(
      "Examples:\n"
      "  isotone serve model.gguf\n"
      "  ISOTONE_API_KEY=secret isotone serve model.gguf --host 0.0.0.0 --port 8080\n"
      "  curl localhost:8000/v1/chat/completions -H 'Content-Type: application/json' \\\n"
      "       -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'\n"
      "Routes: /v1/chat/completions, /v1/completions, /v1/models, /health, /metrics.");
  c->callback([f, &exit_code] { exit_code = run(*f); });
}

}  // namespace isotone::cli
