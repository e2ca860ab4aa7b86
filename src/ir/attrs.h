// Attributes of an operation: a short ordered list of named constants, enough to print, hash and rebuild the operation.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"

namespace isotone::ir {

using Ints = std::vector<std::int64_t>;
/// Booleans and dtypes are stored as integers.
using Attr = std::variant<std::int64_t, double, std::string, Ints>;

class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<std::string_view, Attr>> items) {
    for (const auto& [name, value] : items) {
      items_.emplace_back(std::string(name), value);
    }
  }

  [[nodiscard]] std::int64_t integer(std::string_view name) const { return get<std::int64_t>(name); }
  [[nodiscard]] double real(std::string_view name) const { return get<double>(name); }
  [[nodiscard]] bool flag(std::string_view name) const { return get<std::int64_t>(name) != 0; }
  [[nodiscard]] DType dtype(std::string_view name) const { return static_cast<DType>(get<std::int64_t>(name)); }
  [[nodiscard]] const std::string& text(std::string_view name) const { return get<std::string>(name); }
  [[nodiscard]] const Ints& ints(std::string_view name) const { return get<Ints>(name); }

  void set(std::string_view name, Attr value) {
    for (auto& item : items_) {
      if (item.first == name) {
        item.second = std::move(value);
        return;
      }
    }
    items_.emplace_back(std::string(name), std::move(value));
  }
  [[nodiscard]] const Attr* find(std::string_view name) const {
    for (const auto& item : items_) {
      if (item.first == name) {
        return &item.second;
      }
    }
    return nullptr;
  }
  [[nodiscard]] const std::vector<std::pair<std::string, Attr>>& items() const { return items_; }
  /// Numbers are compared by their bits: 0.0 and -0.0 make different values.
  friend bool operator==(const Attrs& a, const Attrs& b) {
    return std::equal(
        a.items_.begin(), a.items_.end(), b.items_.begin(), b.items_.end(), [](const auto& x, const auto& y) {
          const auto *p = std::get_if<double>(&x.second), *q = std::get_if<double>(&y.second);
          return x.first == y.first &&
                 (p != nullptr && q != nullptr ? std::bit_cast<std::uint64_t>(*p) == std::bit_cast<std::uint64_t>(*q)
                                               : x.second == y.second);
        });
  }

 private:
  template <class T>
  const T& get(std::string_view name) const {
    const Attr* a = find(name);
    require(a != nullptr && std::holds_alternative<T>(*a), "attribute '{}' is missing or of another kind", name);
    return std::get<T>(*a);
  }
  std::vector<std::pair<std::string, Attr>> items_;
};

inline std::int64_t as_attr(DType t) {
  return static_cast<std::int64_t>(t);
}

}  // namespace isotone::ir
