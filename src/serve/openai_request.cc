// Parsing and checking of OpenAI requests. Ranges of sampling parameters are checked by nn::validate, so that the
// command line and the server say the same; here are JSON's types and what the API adds.
#include "serve/openai_request.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"

namespace isotone::serve {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 32;
constexpr std::size_t kMaxStops = 16;
constexpr std::size_t kMaxStopBytes = 1024;
constexpr std::size_t kMaxMessages = 4096;

/// Accepted without effect: they do not change what is answered.
constexpr std::string_view kIgnored[] = {"user",         "metadata",           "store",
                                         "service_tier", "prompt_cache_key",   "safety_identifier",
                                         "verbosity",    "parallel_tool_calls"};

/// Refused by name unless null (or the value given here): they would change the answer and are not there.
struct Refused {
  std::string_view name;
  std::string_view allowed;  // JSON text of a value that is as good as absent
};
constexpr Refused kRefused[] = {{"tools", "[]"},
                                {"tool_choice", "\"none\""},
                                {"functions", "[]"},
                                {"function_call", "\"none\""},
                                {"audio", "null"},
                                {"modalities", "[\"text\"]"},
                                {"prediction", "null"},
                                {"reasoning_effort", "null"},
                                {"web_search_options", "null"},
                                {"suffix", "null"},
                                {"echo", "false"},
                                {"best_of", "1"}};

[[noreturn]] void bad(std::string_view param, std::string message, std::string code = "invalid_value") {
  throw ApiError{400, std::move(message), "invalid_request_error", std::string(param), std::move(code)};
}

std::string kind(const Json& v) {
  if (v.is_number_integer()) {
    return "an integer";
  }
  if (v.is_number()) {
    return "a number";
  }
  return std::string(v.is_array() || v.is_object() ? "an " : "a ") + v.type_name();
}

/// Takes members out of the request one by one; what is left at the end is unknown.
class Reader {
 public:
  explicit Reader(Json json) : json_(std::move(json)) {}

  /// The member, or null if absent or null.
  Json take(std::string_view name) {
    const auto it = json_.find(name);
    if (it == json_.end()) {
      return nullptr;
    }
    Json value = std::move(*it);
    json_.erase(it);
    return value;
  }

  bool boolean(std::string_view name, bool otherwise) {
    const Json v = take(name);
    if (v.is_null()) {
      return otherwise;
    }
    if (!v.is_boolean()) {
      bad(name, fmt::format("{} must be true or false, not {}", name, kind(v)), "invalid_type");
    }
    return v.get<bool>();
  }

  std::int64_t integer(std::string_view name, std::int64_t otherwise, std::int64_t low, std::int64_t high) {
    const Json v = take(name);
    return v.is_null() ? otherwise : to_integer(name, v, low, high);
  }

  float number(std::string_view name, float otherwise) {
    const Json v = take(name);
    return v.is_null() ? otherwise : to_number(name, v);
  }

  std::string string(std::string_view name) {
    const Json v = take(name);
    if (v.is_null()) {
      return {};
    }
    if (!v.is_string()) {
      bad(name, fmt::format("{} must be a string, not {}", name, kind(v)), "invalid_type");
    }
    return v.get<std::string>();
  }

  static std::int64_t to_integer(std::string_view name, const Json& v, std::int64_t low, std::int64_t high) {
    if (!v.is_number()) {
      bad(name, fmt::format("{} must be an integer, not {}", name, kind(v)), "invalid_type");
    }
    const bool too_large =
        v.is_number_unsigned() &&
        v.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (!v.is_number_integer() || too_large || v.get<std::int64_t>() < low || v.get<std::int64_t>() > high) {
      bad(name, fmt::format("{} is {}; it must be an integer from {} to {}", name, v.dump(), low, high));
    }
    return v.get<std::int64_t>();
  }

  static float to_number(std::string_view name, const Json& v) {
    if (!v.is_number()) {
      bad(name, fmt::format("{} must be a number, not {}", name, kind(v)), "invalid_type");
    }
    const double value = v.get<double>();
    if (!(std::fabs(value) <= std::numeric_limits<float>::max())) {
      bad(name, fmt::format("{} is {}; that is too large for any parameter", name, v.dump()));
    }
    return static_cast<float>(value);
  }

  void finish() const {
    if (!json_.empty()) {
      const std::string name = json_.begin().key();
      bad(name, fmt::format("unknown parameter '{}'; see docs/serving.md for those that are taken", name),
          "unknown_parameter");
    }
  }

 private:
  Json json_;
};

Json parse_object(std::string_view body) {
  if (body.empty()) {
    bad("", "the request has no body; send a JSON object", "invalid_json");
  }
  Json json;
  try {
    json = Json::parse(body.begin(), body.end(), [](int depth, Json::parse_event_t, Json&) {
      if (depth > kMaxDepth) {
        bad("", fmt::format("the JSON is nested deeper than {} levels", kMaxDepth), "invalid_json");
      }
      return true;
    });
  } catch (const Json::exception& e) {
    // nlohmann's text: "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    std::string what = e.what();
    if (const std::size_t at = what.find("] "); at != std::string::npos) {
      what.erase(0, at + 2);
    }
    // The message may quote bytes that are no UTF-8.
    for (char& c : what) {
      if (static_cast<unsigned char>(c) >= 0x7F || static_cast<unsigned char>(c) < 0x20) {
        c = '?';
      }
    }
    bad("", "the body is not valid JSON in UTF-8: " + what, "invalid_json");
  }
  if (!json.is_object()) {
    bad("", fmt::format("the body must be a JSON object, not {}", kind(json)), "invalid_json");
  }
  return json;
}

std::string content_text(const Json& content, const std::string& where) {
  if (content.is_string()) {
    return content.get<std::string>();
  }
  if (!content.is_array()) {
    bad(where, fmt::format("{} must be a string or a list of parts, not {}", where, kind(content)), "invalid_type");
  }
  std::string text;
  for (const Json& part : content) {
    if (!part.is_object() || !part.contains("type") || !part["type"].is_string()) {
      bad(where, fmt::format("{}: each part must be an object with a type", where), "invalid_type");
    }
    if (part["type"] != "text") {
      bad(where,
          fmt::format("{}: parts of type {} are not supported; this model reads text", where, part["type"].dump()),
          "unsupported_value");
    }
    if (!part.contains("text") || !part["text"].is_string()) {
      bad(where, fmt::format("{}: a text part needs a string 'text'", where), "invalid_type");
    }
    text += part["text"].get<std::string>();
  }
  return text;
}

std::vector<text::ChatMessage> messages(const Json& list) {
  if (!list.is_array() || list.empty()) {
    bad("messages", "messages must be a list with at least one message", "invalid_type");
  }
  if (list.size() > kMaxMessages) {
    bad("messages", fmt::format("messages has {} entries; at most {} are taken", list.size(), kMaxMessages));
  }
  std::vector<text::ChatMessage> out;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string where = fmt::format("messages[{}]", i);
    const Json& m = list[i];
    if (!m.is_object() || !m.contains("role") || !m["role"].is_string()) {
      bad(where, where + " must be an object with a string 'role'", "invalid_type");
    }
    std::string role = m["role"].get<std::string>();
    if (role == "developer") {
      role = "system";  // OpenAI's newer name of the same thing
    }
    if (role != "system" && role != "user" && role != "assistant") {
      bad(where + ".role",
          fmt::format("{}.role is {}; it must be system, developer, user or assistant", where, m["role"].dump()));
    }
    for (const char* name : {"tool_calls", "function_call", "audio"}) {
      if (m.contains(name) && !m[name].is_null()) {
        bad(where + "." + name, fmt::format("{}.{} is not supported", where, name), "unsupported_parameter");
      }
    }
    if (!m.contains("content") || m["content"].is_null()) {
      bad(where + ".content", where + " has no content");
    }
    out.push_back({std::move(role), content_text(m["content"], where + ".content")});
  }
  return out;
}

std::vector<std::int32_t> token_ids(const Json& list) {
  std::vector<std::int32_t> ids;
  for (const Json& v : list) {
    ids.push_back(
        static_cast<std::int32_t>(Reader::to_integer("prompt", v, 0, std::numeric_limits<std::int32_t>::max())));
  }
  return ids;
}

void read_prompt(Reader& reader, ApiRequest& request) {
  Json prompt = reader.take("prompt");
  // A list of one prompt is that prompt.
  if (prompt.is_array() && prompt.size() == 1 && (prompt[0].is_string() || prompt[0].is_array())) {
    Json only = std::move(prompt[0]);
    prompt = std::move(only);
  }
  if (prompt.is_string()) {
    request.prompt = prompt.get<std::string>();
  } else if (prompt.is_array() && !prompt.empty() && prompt[0].is_number()) {
    request.prompt_ids = token_ids(prompt);
  } else if (prompt.is_array() && prompt.size() > 1) {
    bad("prompt", "prompt holds several prompts; send one request for each", "unsupported_value");
  } else {
    bad("prompt", fmt::format("prompt must be a string or a list of token ids, not {}", kind(prompt)), "invalid_type");
  }
}

std::vector<std::string> stop_strings(const Json& v) {
  std::vector<std::string> stops;
  if (v.is_null()) {
    return stops;
  }
  if (v.is_string()) {
    stops.push_back(v.get<std::string>());
  } else if (v.is_array()) {
    for (const Json& s : v) {
      if (!s.is_string()) {
        bad("stop", fmt::format("stop must be a string or a list of strings; one entry is {}", kind(s)),
            "invalid_type");
      }
      stops.push_back(s.get<std::string>());
    }
  } else {
    bad("stop", fmt::format("stop must be a string or a list of strings, not {}", kind(v)), "invalid_type");
  }
  if (stops.size() > kMaxStops) {
    bad("stop", fmt::format("stop has {} strings; at most {} are taken", stops.size(), kMaxStops));
  }
  for (const std::string& s : stops) {
    if (s.empty() || s.size() > kMaxStopBytes) {
      bad("stop", fmt::format("a stop string has {} bytes; each must have 1 to {}", s.size(), kMaxStopBytes));
    }
  }
  return stops;
}

void read_logit_bias(Reader& reader, nn::SamplingParams& sampling) {
  const Json v = reader.take("logit_bias");
  if (v.is_null()) {
    return;
  }
  if (!v.is_object()) {
    bad("logit_bias", fmt::format("logit_bias must be an object of token id to number, not {}", kind(v)),
        "invalid_type");
  }
  for (const auto& [key, value] : v.items()) {
    if (key.empty() || key.size() > 9 || key.find_first_not_of("0123456789") != std::string::npos) {
      bad("logit_bias", fmt::format("logit_bias has the key {}; keys are token ids", Json(key).dump()));
    }
    sampling.logit_bias.emplace_back(std::stoi(key), Reader::to_number("logit_bias", value));
  }
}

void read_sampling(Reader& reader, ApiRequest& request) {
  nn::SamplingParams& s = request.generation.sampling;
  s.temperature = reader.number("temperature", s.temperature);
  s.top_p = reader.number("top_p", s.top_p);
  s.min_p = reader.number("min_p", s.min_p);
  s.top_k = reader.integer("top_k", s.top_k, -1, std::numeric_limits<std::int32_t>::max());
  s.top_k = s.top_k < 0 ? 0 : s.top_k;  // -1 is how others write "all"
  s.repetition_penalty = reader.number("repetition_penalty", s.repetition_penalty);
  s.frequency_penalty = reader.number("frequency_penalty", s.frequency_penalty);
  s.presence_penalty = reader.number("presence_penalty", s.presence_penalty);
  read_logit_bias(reader, s);
  const Json seed = reader.take("seed");
  if (seed.is_null()) {
    std::random_device device;
    s.seed = (static_cast<std::uint64_t>(device()) << 32) | device();
  } else if (seed.is_number_unsigned()) {
    s.seed = seed.get<std::uint64_t>();
  } else {
    s.seed = static_cast<std::uint64_t>(Reader::to_integer("seed", seed, std::numeric_limits<std::int64_t>::min(),
                                                           std::numeric_limits<std::int64_t>::max()));
  }
  if (request.chat) {
    s.logprobs = reader.boolean("logprobs", false);
    s.top_logprobs = static_cast<int>(reader.integer("top_logprobs", 0, 0, 20));
    if (s.top_logprobs > 0 && !s.logprobs) {
      bad("top_logprobs", "top_logprobs needs logprobs: true");
    }
  } else {
    const Json v = reader.take("logprobs");
    // The older API asks for a count; false and null are none.
    if (!v.is_null() && v != false) {
      s.logprobs = true;
      s.top_logprobs = static_cast<int>(Reader::to_integer("logprobs", v, 0, 20));
    }
  }
}

void refuse_unsupported(Reader& reader, bool chat) {
  for (const Refused& r : kRefused) {
    const Json v = reader.take(r.name);
    if (!v.is_null() && v != Json::parse(r.allowed)) {
      bad(r.name, fmt::format("{} is not supported by this server", r.name), "unsupported_parameter");
    }
  }
  if (reader.integer("n", 1, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()) != 1) {
    bad("n", "n must be 1; send several requests for several answers", "unsupported_value");
  }
  if (chat) {
    const Json format = reader.take("response_format");
    if (!format.is_null() && !(format.is_object() && format.value("type", Json()) == "text")) {
      bad("response_format", "response_format is not supported, except {\"type\": \"text\"}", "unsupported_parameter");
    }
  }
}

}  // namespace

ApiRequest parse_request(std::string_view body, bool chat) {
  Reader reader(parse_object(body));
  ApiRequest request;
  request.chat = chat;
  request.model = reader.string("model");
  for (const std::string_view name : kIgnored) {
    reader.take(name);
  }
  refuse_unsupported(reader, chat);
  request.stream = reader.boolean("stream", false);
  const Json options = reader.take("stream_options");
  if (!options.is_null()) {
    if (!request.stream) {
      bad("stream_options", "stream_options needs stream: true");
    }
    if (!options.is_object()) {
      bad("stream_options", fmt::format("stream_options must be an object, not {}", kind(options)), "invalid_type");
    }
    Reader inner(options);
    request.include_usage = inner.boolean("include_usage", false);
    inner.boolean("include_obfuscation", false);
    inner.finish();
  }
  const std::int64_t most = std::numeric_limits<std::int32_t>::max();
  request.generation.max_tokens = reader.integer("max_tokens", -1, 1, most);
  if (chat) {
    const std::int64_t newer = reader.integer("max_completion_tokens", -1, 1, most);
    request.generation.max_tokens = newer > 0 ? newer : request.generation.max_tokens;
    request.messages = messages(reader.take("messages"));
  } else {
    read_prompt(reader, request);
  }
  request.generation.stop = stop_strings(reader.take("stop"));
  read_sampling(reader, request);
  reader.finish();
  return request;
}

}  // namespace isotone::serve
