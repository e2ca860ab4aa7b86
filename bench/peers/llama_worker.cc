// The llama.cpp side of the benches, on its C API with its own defaults and two threads. `llama_worker MODEL start
// TEXT` is one cold start to the first token; `llama_worker MODEL [plain]` reads requests from standard input, one a
// line, and answers each with one line of JSON: "prefill IDS", "decode STEPS IDS", "greedy STEPS IDS" (IDS:
// comma-separated). "plain" leaves out the repacked weights (AMX tiles among them).
#include <chrono>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "llama.h"

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<llama_token> parse_ids(const std::string& text) {
  std::vector<llama_token> ids;
  std::stringstream in(text);
  for (std::string item; std::getline(in, item, ',');)
    ids.push_back(std::stoi(item));
  return ids;
}

struct Peer {
  llama_model* model = nullptr;
  llama_context* context = nullptr;

  Peer(const char* path, bool plain) {
    llama_backend_init();
    auto model_params = llama_model_default_params();
    model_params.use_extra_bufts = !plain;
    model = llama_model_load_from_file(path, model_params);
    if (!model)
      return;
    auto params = llama_context_default_params();
    params.n_ctx = 1024;
    params.n_batch = 512;
    params.n_ubatch = 512;
    params.n_threads = 2;
    params.n_threads_batch = 2;
    context = llama_init_from_model(model, params);
  }
  ~Peer() {
    if (context)
      llama_free(context);
    if (model)
      llama_model_free(model);
    llama_backend_free();
  }

  // Feeds the ids from an empty cache; the logits of the last one are then ready.
  bool feed(std::vector<llama_token>& ids) {
    return llama_decode(context, llama_batch_get_one(ids.data(), static_cast<int32_t>(ids.size()))) == 0;
  }
  void clear() { llama_memory_clear(llama_get_memory(context), true); }

  llama_token best() const {
    const float* logits = llama_get_logits_ith(context, -1);
    const int n = llama_vocab_n_tokens(llama_model_get_vocab(model));
    int at = 0;
    for (int i = 1; i < n; ++i)
      if (logits[i] > logits[at])
        at = i;
    return at;
  }
};

int start(Peer& peer, const std::string& text) {
  const auto* vocab = llama_model_get_vocab(peer.model);
  std::vector<llama_token> ids(text.size() + 8);
  const int n = llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()), ids.data(),
                               static_cast<int32_t>(ids.size()), false, true);
  if (n <= 0)
    return 1;
  ids.resize(n);
  if (!peer.feed(ids))
    return 1;
  std::printf("{\"token\": %d, \"prompt_tokens\": %d}\n", peer.best(), n);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: llama_worker MODEL [plain | start TEXT]\n");
    return 2;
  }
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  const std::string mode = argc > 2 ? argv[2] : "";
  Peer peer(argv[1], mode == "plain");
  if (!peer.context) {
    std::fprintf(stderr, "llama_worker: cannot load %s\n", argv[1]);
    return 1;
  }
  if (mode == "start")
    return start(peer, argc > 3 ? argv[3] : "Hello");
  std::printf("{\"ready\": true}\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    std::stringstream in(line);
    std::string op, list;
    int steps = 0;
    in >> op;
    if (op != "prefill")
      in >> steps;
    in >> list;
    auto ids = parse_ids(list);
    peer.clear();
    const double t0 = now();
    if (ids.empty() || !peer.feed(ids)) {
      std::printf("{\"error\": \"prefill failed\"}\n");
      std::fflush(stdout);
      continue;
    }
    const double t1 = now();
    std::string tokens;
    for (int i = 0; i < steps; ++i) {
      llama_token next = peer.best();
      tokens += (tokens.empty() ? "" : ", ") + std::to_string(next);
      if (op == "greedy" && i + 1 == steps)
        break;
      std::vector<llama_token> one{next};
      if (!peer.feed(one))
        break;
    }
    const double t2 = now();
    std::printf("{\"prefill_s\": %.6f, \"decode_s\": %.6f, \"tokens\": [%s]}\n", t1 - t0, t2 - t1, tokens.c_str());
    std::fflush(stdout);
  }
  return 0;
}
