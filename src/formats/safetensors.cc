// Reader and writer of safetensors; the header's form is checked in safetensors_header.cc.
#include "formats/safetensors.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "formats/json_text.h"
#include "formats/safetensors_header.h"

namespace isotone {
namespace {

constexpr std::size_t kDataAlign = 64;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::uint64_t read_u64(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    value |= static_cast<std::uint64_t>(bytes[i]) << (8 * i);
  }
  return value;
}

/// Bytes that dtype and shape need.
std::uint64_t needed_bytes(const SafetensorsEntry& entry, const std::string& path) {
  try {
    const auto n = static_cast<std::uint64_t>(checked_elements(entry.shape, entry.name));
    const std::uint64_t bits = detail::safetensors_dtype_bits(entry.dtype_text);
    require(n <= (std::uint64_t{1} << 62) / bits, "tensor '{}': the shape {} is too large", entry.name,
            shape_text(entry.shape));
    require(n * bits % 8 == 0, "tensor '{}': {} elements of {} do not fill whole bytes", entry.name, n,
            entry.dtype_text);
    return n * bits / 8;
  } catch (const Error& error) {
    throw error.in(path);
  }
}

}  // namespace

Safetensors::Safetensors(const std::string& path) : path_(path), file_(std::make_shared<MappedFile>(path)) {
  parse(file_->bytes());
}

Safetensors::Safetensors(std::span<const std::byte> bytes, std::string name) : path_(std::move(name)) {
  parse(bytes);
}

void Safetensors::parse(std::span<const std::byte> bytes) {
  require(bytes.size() >= 8, "{}: not a safetensors file: {} bytes, the header's length alone takes 8", path_,
          bytes.size());
  const std::uint64_t length = read_u64(bytes);
  require(length <= kMaxSafetensorsHeader,
          "{}: not a safetensors file: its first 8 bytes would mean a header of {} bytes, the limit is {}", path_,
          length, kMaxSafetensorsHeader);
  require(length <= bytes.size() - 8, "{}: cut short: the header has {} bytes, the file only {} after its length",
          path_, length, bytes.size() - 8);
  const std::string_view header_text = as_text(bytes.subspan(8, length));
  require(!header_text.empty() && header_text.front() == '{', "{}: the header does not begin with '{{'", path_);
  const std::size_t last = header_text.find_last_not_of(' ');
  require(header_text[last] == '}', "{}: the header does not end with '}}' and spaces", path_);

  detail::SafetensorsHeader header = detail::parse_safetensors_header(header_text.substr(0, last + 1), path_);
  metadata_ = std::move(header.metadata);
  entries_ = std::move(header.entries);
  buffer_ = bytes.subspan(8 + length);
  // Empty tensors share an offset with their neighbour: the shorter one first.
  std::sort(entries_.begin(), entries_.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const SafetensorsEntry& e = entries_[i];
    require(e.begin <= e.end, "{}: tensor '{}': data_offsets [{}, {}] run backwards", path_, e.name, e.begin, e.end);
    require(e.begin >= at, "{}: tensor '{}': data_offsets [{}, {}] overlap the tensor before, which ends at {}", path_,
            e.name, e.begin, e.end, at);
    require(e.begin == at, "{}: tensor '{}': data_offsets [{}, {}] leave a hole after byte {}", path_, e.name, e.begin,
            e.end, at);
    require(e.end <= buffer_.size(), "{}: cut short: tensor '{}' ends at byte {}, the data has only {}", path_, e.name,
            e.end, buffer_.size());
    const std::uint64_t needed = needed_bytes(e, path_);
    require(needed == e.bytes(), "{}: tensor '{}': {} of shape {} needs {} bytes, data_offsets give {}", path_, e.name,
            e.dtype_text, shape_text(e.shape), needed, e.bytes());
    at = e.end;
    by_name_.emplace(e.name, i);
  }
  require(at == buffer_.size(), "{}: {} bytes after the last tensor belong to none", path_, buffer_.size() - at);
}

const SafetensorsEntry* Safetensors::find(std::string_view name) const {
  const auto it = by_name_.find(std::string(name));
  return it == by_name_.end() ? nullptr : &entries_[it->second];
}

std::span<const std::byte> Safetensors::data(const SafetensorsEntry& entry) const {
  return buffer_.subspan(entry.begin, entry.bytes());
}

void Safetensors::prefetch() const {
  if (file_) {
    file_->prefetch();
  }
}

TensorView Safetensors::tensor(std::string_view name) const {
  const SafetensorsEntry* entry = find(name);
  if (entry == nullptr) {
    fail("{}: no tensor '{}' among its {}", path_, name, entries_.size());
  }
  require(entry->dtype.has_value(),
          "{}: tensor '{}' has dtype {}, which Isotone cannot compute with; convert it to F32, BF16 or F16", path_,
          entry->name, entry->dtype_text);
  return {{entry->name, *entry->dtype, entry->shape}, data(*entry), file_};
}

SafetensorsPlan::SafetensorsPlan(const std::string& path, std::vector<TensorSpec> specs, const StringMap& metadata)
    : tensors(std::move(specs)) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorSpec& a, const TensorSpec& b) {
    const std::size_t wide_a = unit_bytes(a.dtype);
    const std::size_t wide_b = unit_bytes(b.dtype);
    return wide_a != wide_b ? wide_a > wide_b : a.name < b.name;
  });
  Json header = Json::object();
  if (!metadata.empty()) {
    header["__metadata__"] = metadata;
  }
  std::uint64_t at = 0;
  for (const TensorSpec& spec : tensors) {
    require(spec.name != "__metadata__" && !header.contains(spec.name), "{}: tensor name '{}' is taken", path,
            spec.name);
    const std::uint64_t end = at + spec.bytes();
    header[spec.name] = {
        {"dtype", safetensors_dtype_name(spec.dtype)}, {"shape", spec.shape}, {"data_offsets", {at, end}}};
    offsets.push_back(at);
    at = end;
  }
  offsets.push_back(at);
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception& error) {
    fail("{}: a name or metadata text is not UTF-8: {}", path, json_error_text(error));
  }
  text.append((kDataAlign - (8 + text.size()) % kDataAlign) % kDataAlign, ' ');
  require(text.size() <= kMaxSafetensorsHeader, "{}: the header would have {} bytes, the limit is {}", path,
          text.size(), kMaxSafetensorsHeader);
  for (int i = 0; i < 8; ++i) {
    head += static_cast<char>(static_cast<std::uint64_t>(text.size()) >> (8 * i) & 255U);
  }
  head += text;
  for (std::uint64_t& offset : offsets) {
    offset += head.size();
  }
}

SafetensorsWriter::SafetensorsWriter(const std::string& path, std::vector<TensorSpec> specs, const StringMap& metadata)
    : file_(path), path_(path) {
  SafetensorsPlan plan(path_, std::move(specs), metadata);
  specs_ = std::move(plan.tensors);
  file_.write(plan.head);
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  while (current_ < specs_.size() && written_ == specs_[current_].bytes()) {
    ++current_;
    written_ = 0;
  }
  if (bytes.empty()) {
    return;
  }
  require(current_ < specs_.size(), "{}: more data than the tensors have", path_);
  require(bytes.size() <= specs_[current_].bytes() - written_, "{}: tensor '{}' has {} bytes, {} were given", path_,
          specs_[current_].name, specs_[current_].bytes(), written_ + bytes.size());
  file_.write(bytes);
  written_ += bytes.size();
}

void SafetensorsWriter::finish() {
  write({});
  require(current_ == specs_.size(), "{}: tensor '{}' and those after it were not written", path_,
          current_ < specs_.size() ? specs_[current_].name : "");
  file_.commit();
}

void save_safetensors(const std::string& path, const std::vector<TensorView>& tensors, const StringMap& metadata) {
  std::vector<TensorSpec> specs(tensors.begin(), tensors.end());
  std::unordered_map<std::string, const TensorView*> by_name;
  for (const TensorView& t : tensors) {
    require(t.data.size() == t.bytes(), "{}: tensor '{}': {} of shape {} needs {} bytes, {} were given", path, t.name,
            dtype_name(t.dtype), shape_text(t.shape), t.bytes(), t.data.size());
    by_name.emplace(t.name, &t);
  }
  SafetensorsWriter writer(path, std::move(specs), metadata);
  for (const TensorSpec& spec : writer.order()) {
    writer.write(by_name.at(spec.name)->data);
  }
  writer.finish();
}

}  // namespace isotone
