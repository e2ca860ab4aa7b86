// Printing and parsing of flat graphs, for people and for tests.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <cstdlib>
#include <map>

#include "base/error.h"
#include "ir/graph.h"

namespace isotone::ir {

namespace {

std::string print_attr(const Attr& attr) {
  if (const auto* n = std::get_if<std::int64_t>(&attr)) {
    return fmt::format("{}", *n);
  }
  if (const auto* d = std::get_if<double>(&attr)) {
    return fmt::format("f{:a}", *d);  // hexadecimal: read back to the bit
  }
  if (const auto* s = std::get_if<std::string>(&attr)) {
    std::string out = "\"";
    for (const char c : *s) {
      if (c == '\n') {
        out += "\\n";  // one instruction a line
        continue;
      }
      if (c == '"' || c == '\\') {
        out += '\\';
      }
      out += c;
    }
    return out + '"';
  }
  return fmt::format("[{}]", fmt::join(std::get<Ints>(attr), ", "));
}

std::string value_name(ValueId v) {
  return v == kNone ? "none" : fmt::format("%{}", v);
}

/// Reads one line of the printed form; every error names the line.
class Reader {
 public:
  Reader(std::string_view text, int line) : text_(text), line_(line) {}

  void spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') {
      ++at_;
    }
  }
  bool accept(std::string_view token) {
    spaces();
    if (text_.substr(at_, token.size()) == token) {
      at_ += token.size();
      return true;
    }
    return false;
  }
  void expect(std::string_view token) {
    require(accept(token), "graph text, line {}: expected '{}' at column {}", line_, token, at_ + 1);
  }
  bool end() {
    spaces();
    return at_ == text_.size();
  }
  std::string word() {
    spaces();
    const std::size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_')) {
      ++at_;
    }
    require(at_ > start, "graph text, line {}: expected a name at column {}", line_, start + 1);
    return std::string(text_.substr(start, at_ - start));
  }
  std::int64_t integer() {
    spaces();
    const std::string rest(text_.substr(at_, 24));
    char* stop = nullptr;
    const std::int64_t n = std::strtoll(rest.c_str(), &stop, 10);
    require(stop != rest.c_str(), "graph text, line {}: expected a number at column {}", line_, at_ + 1);
    at_ += static_cast<std::size_t>(stop - rest.c_str());
    return n;
  }
  Ints ints() {
    Ints out;
    expect("[");
    while (!accept("]")) {
      out.push_back(integer());
      accept(",");
    }
    return out;
  }
  Attr attr() {
    spaces();
    if (accept("\"")) {
      std::string s;
      while (at_ < text_.size() && text_[at_] != '"') {
        const bool escaped = text_[at_] == '\\';
        at_ += escaped ? 1 : 0;
        require(at_ < text_.size(), "graph text, line {}: a text attribute does not end", line_);
        s += escaped && text_[at_] == 'n' ? '\n' : text_[at_];
        ++at_;
      }
      expect("\"");
      return s;
    }
    if (at_ < text_.size() && text_[at_] == '[') {
      return ints();
    }
    if (accept("f")) {
      const std::string rest(text_.substr(at_, 40));
      char* stop = nullptr;
      const double d = std::strtod(rest.c_str(), &stop);
      require(stop != rest.c_str(), "graph text, line {}: expected a number at column {}", line_, at_ + 1);
      at_ += static_cast<std::size_t>(stop - rest.c_str());
      return d;
    }
    return integer();
  }
  Type type() {
    const std::string name = word();
    try {
      const DType dtype = parse_dtype(name);
      return {dtype, ints()};
    } catch (const Error& e) {
      throw named(e);
    }
  }
  /// An error of somebody else, with the line.
  [[nodiscard]] Error named(const Error& e) const {
    const std::string where = fmt::format("graph text, line {}", line_);
    return std::string_view(e.what()).starts_with(where) ? e : e.in(where);
  }
  ValueId value() {
    if (accept("none")) {
      return kNone;
    }
    expect("%");
    const std::int64_t n = integer();
    require(n >= 0 && n < 100'000'000, "graph text, line {}: value number {} is out of range", line_, n);
    return static_cast<ValueId>(n);
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
  int line_;
};

}  // namespace

std::string print(const Graph& graph) {
  std::string out;
  for (const ValueId v : graph.inputs) {
    out += fmt::format("input {} : {}\n", value_name(v), to_string(graph.types[static_cast<std::size_t>(v)]));
  }
  for (const Instruction& i : graph.code) {
    for (std::size_t k = 0; k < i.outputs.size(); ++k) {
      out += fmt::format("{}{}", k == 0 ? "" : ", ", value_name(i.outputs[k]));
    }
    out += fmt::format(" = {}(", i.op);
    for (std::size_t k = 0; k < i.inputs.size(); ++k) {
      out += fmt::format("{}{}", k == 0 ? "" : ", ", value_name(i.inputs[k]));
    }
    out += ") {";
    bool first = true;
    for (const auto& [name, attr] : i.attrs.items()) {
      out += fmt::format("{}{} = {}", first ? "" : ", ", name, print_attr(attr));
      first = false;
    }
    out += "}";
    if (i.region != 0) {
      out += fmt::format(" region {}", i.region);
    }
    out += " :";
    for (std::size_t k = 0; k < i.outputs.size(); ++k) {
      out += fmt::format("{} {}", k == 0 ? "" : ",", to_string(graph.types[static_cast<std::size_t>(i.outputs[k])]));
    }
    out += "\n";
  }
  for (const ValueId v : graph.outputs) {
    out += fmt::format("output {}\n", value_name(v));
  }
  return out;
}

Graph parse(std::string_view text, const std::function<std::string_view(std::string_view)>& intern) {
  Graph graph;
  std::map<ValueId, ValueId> ids;  // printed numbers may have gaps
  int line_number = 0;
  const auto known = [&](ValueId v) {
    const auto it = ids.find(v);
    require(v == kNone || it != ids.end(), "graph text, line {}: %{} is used before it is made", line_number, v);
    return v == kNone ? kNone : it->second;
  };
  const auto make = [&](ValueId v, Type type) {
    require(v != kNone && !ids.contains(v), "graph text, line {}: %{} is made twice", line_number, v);
    return ids[v] = graph.add_value(std::move(type));
  };
  while (!text.empty()) {
    ++line_number;
    const std::size_t end = text.find('\n');
    Reader r(text.substr(0, end), line_number);
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
    if (r.end()) {
      continue;
    }
    if (r.accept("input ")) {
      const ValueId v = r.value();
      r.expect(":");
      graph.inputs.push_back(make(v, r.type()));
    } else if (r.accept("output ")) {
      graph.outputs.push_back(known(r.value()));
    } else {
      std::vector<ValueId> made;
      do {
        made.push_back(r.value());
      } while (r.accept(","));
      r.expect("=");
      Instruction i;
      const std::string op = r.word();
      try {
        i.op = intern(op);
      } catch (const Error& e) {
        throw r.named(e);
      }
      r.expect("(");
      while (!r.accept(")")) {
        i.inputs.push_back(known(r.value()));
        r.accept(",");
      }
      r.expect("{");
      while (!r.accept("}")) {
        const std::string name = r.word();
        r.expect("=");
        i.attrs.set(name, r.attr());
        r.accept(",");
      }
      if (r.accept("region ")) {
        i.region = static_cast<int>(r.integer());
      }
      r.expect(":");
      for (const ValueId v : made) {
        i.outputs.push_back(make(v, r.type()));
        r.accept(",");
      }
      graph.code.push_back(std::move(i));
    }
    require(r.end(), "graph text, line {}: something is left over at its end", line_number);
  }
  return graph;
}

}  // namespace isotone::ir
