// Commands and turns of a chat. The conversation's cache makes a turn cost only what is new in it.
#include "serve/chat_session.h"

#include <charconv>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "serve/admission.h"

namespace isotone::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kHelp =
    "/help               this list\n"
    "/reset              forget the conversation (the system message stays)\n"
    "/system [TEXT]      show or set the system message; setting it forgets the conversation\n"
    "/params             show the sampling parameters\n"
    "/params NAME VALUE  set one: temperature, top_k, top_p, min_p, repetition_penalty, frequency_penalty,\n"
    "                    presence_penalty, seed, max_tokens (-1: no limit)\n"
    "/save FILE          write the conversation as JSON\n"
    "/load FILE          continue a conversation that was saved\n"
    "/quit               leave (as does the end of input)\n"
    "Ctrl-C stops an answer; what was said so far stays. A message that begins with '/' is written '//...'.\n";

std::string_view trim(std::string_view s) {
  const std::size_t first = s.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) {
    return {};
  }
  return s.substr(first, s.find_last_not_of(" \t\r\n") - first + 1);
}

template <class T>
T parse_number(std::string_view name, std::string_view value) {
  T result{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
  require(error == std::errc() && end == value.data() + value.size() && !value.empty(), "{}: '{}' is not a number",
          name, value);
  return result;
}

}  // namespace

ChatSession::ChatSession(LoadedModel& model, Options options, Write write)
    : model_(&model), options_(std::move(options)), write_(std::move(write)), conversation_(*model.model) {
  nn::validate(options_.sampling, model.model->vocab_size());
  reset();
}

void ChatSession::reset() {
  history_.clear();
  if (!options_.system.empty()) {
    history_.push_back({"system", options_.system});
  }
}

ChatSession::Next ChatSession::handle(const std::string& line, const std::stop_token& stop) {
  const std::string_view text = trim(line);
  if (text.empty()) {
    return Next::go_on;
  }
  try {
    if (text.starts_with('/') && !text.starts_with("//")) {
      return command(std::string(text));
    }
    answer(std::string(text.starts_with("//") ? text.substr(1) : text), stop);
  } catch (const std::exception& e) {
    write_(fmt::format("error: {}\n", e.what()));
  }
  return Next::go_on;
}

ChatSession::Next ChatSession::command(const std::string& line) {
  const std::size_t space = line.find_first_of(" \t");
  const std::string name = line.substr(0, space);
  const std::string rest(space == std::string::npos ? std::string_view() : trim(std::string_view(line).substr(space)));
  if (name == "/quit" || name == "/exit") {
    return Next::quit;
  }
  if (name == "/help") {
    write_(kHelp);
  } else if (name == "/reset") {
    reset();
    write_("The conversation is forgotten.\n");
  } else if (name == "/system") {
    if (rest.empty()) {
      write_(options_.system.empty() ? "There is no system message.\n" : options_.system + "\n");
    } else {
      options_.system = rest;
      reset();
      write_("The system message is set; the conversation starts anew.\n");
    }
  } else if (name == "/params") {
    if (!rest.empty()) {
      const std::size_t gap = rest.find_first_of(" \t=");
      require(gap != std::string::npos, "/params takes a name and a value, for example: /params temperature 0.2");
      set_parameter(rest.substr(0, gap), trim(std::string_view(rest).substr(gap + 1)));
    }
    show_parameters();
  } else if (name == "/save") {
    require(!rest.empty(), "/save needs a file name");
    save(rest);
    write_(fmt::format("Saved {} messages to {}.\n", history_.size(), rest));
  } else if (name == "/load") {
    require(!rest.empty(), "/load needs a file name");
    load(rest);
    write_(fmt::format("Loaded {} messages from {}.\n", history_.size(), rest));
  } else {
    fail("there is no command {}; /help lists them", name);
  }
  return Next::go_on;
}

void ChatSession::answer(const std::string& message, const std::stop_token& stop) {
  std::vector<text::ChatMessage> turn = history_;
  turn.push_back({"user", message});
  GenerationRequest request;
  request.prompt = encode_chat(*model_, turn);
  request.max_tokens = options_.max_tokens;
  request.sampling = options_.sampling;
  request.stop = options_.stop;
  request.stop_ids = model_->stop_ids;
  const std::int64_t context = model_->model->context_length();
  const auto length = static_cast<std::int64_t>(request.prompt.size());
  require(length < context,
          "the conversation has {} tokens and the model's context holds {}; /reset forgets it, /save keeps it first",
          length, context);
  if (request.max_tokens > context - length) {
    request.max_tokens = -1;  // the context is the tighter limit
  }
  const Generation g = generate(
      conversation_, model_->tokenizer, request,
      [&](std::string_view piece, std::span<const nn::Sample>) { write_(piece); }, stop);
  write_("\n");
  turn.push_back({"assistant", g.text});
  history_ = std::move(turn);
  if (g.reason == FinishReason::length && request.max_tokens < 0) {
    write_("[the context is full: /reset starts anew]\n");
  }
}

void ChatSession::set_parameter(std::string_view name, std::string_view value) {
  nn::SamplingParams p = options_.sampling;
  if (name == "max_tokens") {
    const auto n = parse_number<std::int64_t>(name, value);
    require(n == -1 || n >= 1, "max_tokens is {}; it must be at least 1, or -1 for no limit", n);
    options_.max_tokens = n;
    return;
  }
  if (name == "temperature") {
    p.temperature = parse_number<float>(name, value);
  } else if (name == "top_k") {
    p.top_k = parse_number<std::int64_t>(name, value);
  } else if (name == "top_p") {
    p.top_p = parse_number<float>(name, value);
  } else if (name == "min_p") {
    p.min_p = parse_number<float>(name, value);
  } else if (name == "repetition_penalty") {
    p.repetition_penalty = parse_number<float>(name, value);
  } else if (name == "frequency_penalty") {
    p.frequency_penalty = parse_number<float>(name, value);
  } else if (name == "presence_penalty") {
    p.presence_penalty = parse_number<float>(name, value);
  } else if (name == "seed") {
    p.seed = parse_number<std::uint64_t>(name, value);
  } else {
    fail("there is no parameter '{}'; /params shows them", name);
  }
  nn::validate(p, model_->model->vocab_size());
  options_.sampling = p;
}

void ChatSession::show_parameters() const {
  const nn::SamplingParams& p = options_.sampling;
  write_(fmt::format(
      "temperature {}  top_k {}  top_p {}  min_p {}  repetition_penalty {}  frequency_penalty {}  presence_penalty {}  "
      "seed {}  max_tokens {}\n",
      p.temperature, p.top_k, p.top_p, p.min_p, p.repetition_penalty, p.frequency_penalty, p.presence_penalty, p.seed,
      options_.max_tokens));
}

void ChatSession::save(const std::string& path) const {
  Json list = Json::array();
  for (const text::ChatMessage& m : history_) {
    list.push_back({{"role", m.role}, {"content", m.content}});
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << Json{{"messages", list}}.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  file.flush();
  require(file.good(), "cannot write {}; is its folder there and writable, and the disk not full?", path);
}

void ChatSession::load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  require(file.good(), "cannot read {}; is it there?", path);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  std::vector<text::ChatMessage> loaded;
  try {
    const Json json = Json::parse(bytes.str());
    for (const Json& m : json.at("messages")) {
      loaded.push_back({m.at("role").get<std::string>(), m.at("content").get<std::string>()});
    }
  } catch (const Json::exception& e) {
    fail("{} is no saved conversation ({}); /save writes one", path, e.what());
  }
  history_ = std::move(loaded);
  options_.system = !history_.empty() && history_[0].role == "system" ? history_[0].content : "";
}

}  // namespace isotone::serve
