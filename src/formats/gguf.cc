// Reader of GGUF. A cursor over the bytes refuses whatever lies beyond the end; counts are compared with what the rest
// of the file could hold before anything is allocated for them.
#include "formats/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "formats/gguf_types.h"
#include "formats/gguf_value.h"

namespace isotone {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF values are read in place");

constexpr std::uint64_t kMaxKey = 65535;
constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};  // the file's end is limit enough
constexpr std::uint64_t kMaxTensorName = 256;
constexpr std::uint32_t kMaxDims = 4;
constexpr int kMaxNesting = 4;
/// Counts beyond these are no model; they keep a hostile file from costing many times its size in memory.
constexpr std::uint64_t kMaxTensors = std::uint64_t{1} << 20;
constexpr std::uint64_t kMaxMetadata = std::uint64_t{1} << 16;
constexpr std::uint64_t kMaxNestedArrays = std::uint64_t{1} << 16;
/// Texts in arrays: four times the largest vocabulary in use.
constexpr std::uint64_t kMaxTexts = std::uint64_t{1} << 22;

class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  [[nodiscard]] std::size_t position() const { return at_; }
  [[nodiscard]] std::size_t left() const { return bytes_.size() - at_; }

  std::span<const std::byte> take(std::uint64_t n, std::string_view what) {
    if (n > left()) {
      fail("{}: cut short: {} at byte {} needs {} bytes, {} are left", path_, what, at_, n, left());
    }
    const auto taken = bytes_.subspan(at_, n);
    at_ += n;
    return taken;
  }

  template <class T>
  T number(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }

  std::string_view text(std::uint64_t limit, std::string_view what) {
    const auto length = number<std::uint64_t>(what);
    if (length > limit) {
      fail("{}: {} at byte {} is {} bytes long, the limit is {}", path_, what, at_ - 8, length, limit);
    }
    const auto taken = take(length, what);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& path_;
  std::size_t at_ = 0;
};

class MetadataReader {
 public:
  MetadataReader(Cursor& cursor, const std::string& path) : cursor_(cursor), path_(path) {}

  GgufValue read() {
    GgufValue value;
    value.key = cursor_.text(kMaxKey, "a metadata key");
    require(!value.key.empty(), "{}: a metadata key is empty", path_);
    value.type = read_type(value.key);
    read_value(value, 0);
    return value;
  }

 private:
  GgufType read_type(const std::string& key) {
    const auto number = cursor_.number<std::uint32_t>("a metadata type");
    require(number <= static_cast<std::uint32_t>(GgufType::f64), "{}: metadata '{}' has the unknown type {}", path_,
            key, number);
    return static_cast<GgufType>(number);
  }

  void read_value(GgufValue& value, int depth) {
    if (value.type == GgufType::text) {
      value.string = cursor_.text(kNoLimit, value.key);
    } else if (value.type == GgufType::array) {
      read_array(value, depth);
    } else {
      value.bits =
          detail::gguf_scalar_bits(value.type, cursor_.take(detail::gguf_scalar_bytes(value.type), value.key).data());
      require(value.type != GgufType::boolean || value.bits <= 1, "{}: metadata '{}' is a boolean with the value {}",
              path_, value.key, value.bits);
    }
  }

  void read_array(GgufValue& value, int depth) {
    require(depth < kMaxNesting, "{}: metadata '{}' nests arrays more than {} deep", path_, value.key, kMaxNesting);
    value.element = read_type(value.key);
    value.count = cursor_.number<std::uint64_t>(value.key);
    const std::size_t width = detail::gguf_scalar_bytes(value.element);
    if (width != 0) {
      require(value.count <= cursor_.left() / width,
              "{}: cut short: metadata '{}' has {} elements of {}, {} bytes are left", path_, value.key, value.count,
              gguf_type_name(value.element), cursor_.left());
      value.raw = cursor_.take(value.count * width, value.key);
      return;
    }
    // The shortest text takes 8 bytes, the shortest array 12.
    require(value.count <= cursor_.left() / 8, "{}: cut short: metadata '{}' has {} elements, {} bytes are left", path_,
            value.key, value.count, cursor_.left());
    const bool texts = value.element == GgufType::text;
    std::uint64_t& total = texts ? texts_ : arrays_;
    const std::uint64_t most = texts ? kMaxTexts : kMaxNestedArrays;
    total += value.count;
    require(total <= most, "{}: metadata '{}' brings the {}s in arrays to {}, the limit is {}", path_, value.key,
            gguf_type_name(value.element), total, most);
    if (texts) {
      value.strings.reserve(value.count);
      for (std::uint64_t i = 0; i < value.count; ++i) {
        value.strings.push_back(cursor_.text(kNoLimit, value.key));
      }
      return;
    }
    for (std::uint64_t i = 0; i < value.count; ++i) {
      GgufValue& inner = value.nested.emplace_back();
      inner.key = value.key.size() <= 64 ? value.key : value.key.substr(0, 64);
      inner.type = GgufType::array;
      read_value(inner, depth + 1);
    }
  }

  Cursor& cursor_;
  const std::string& path_;
  std::uint64_t texts_ = 0;
  std::uint64_t arrays_ = 0;
};

GgufTensor read_tensor_info(Cursor& cursor, const std::string& path) {
  GgufTensor t;
  t.name = cursor.text(kMaxTensorName, "a tensor's name");
  require(!t.name.empty(), "{}: a tensor has an empty name", path);
  const auto dims = cursor.number<std::uint32_t>("a tensor's number of dimensions");
  require(dims <= kMaxDims, "{}: tensor '{}' has {} dimensions, the limit is {}", path, t.name, dims, kMaxDims);
  for (std::uint32_t i = 0; i < dims; ++i) {
    const auto dim = cursor.number<std::uint64_t>("a tensor's dimension");
    require(dim <= std::uint64_t{1} << 62, "{}: tensor '{}': dimension {} is {}", path, t.name, i, dim);
    t.shape.insert(t.shape.begin(), static_cast<std::int64_t>(dim));
  }
  t.type = cursor.number<std::uint32_t>("a tensor's type");
  t.offset = cursor.number<std::uint64_t>("a tensor's offset");
  const detail::GgmlType* type = detail::find_ggml_type(t.type);
  if (type == nullptr) {
    fail("{}: tensor '{}' has the unknown type {}", path, t.name, t.type);
  }
  t.type_text = type->name;
  t.dtype = type->dtype;
  std::uint64_t n = 0;
  try {
    n = static_cast<std::uint64_t>(checked_elements(t.shape, t.name));
  } catch (const Error& error) {
    throw error.in(path);
  }
  const std::uint64_t row = t.shape.empty() ? 1 : static_cast<std::uint64_t>(t.shape.back());
  require(row % type->block == 0, "{}: tensor '{}': rows of {} do not divide into {} blocks of {}", path, t.name, row,
          type->name, type->block);
  require(n / type->block <= (std::uint64_t{1} << 62) / type->block_bytes, "{}: tensor '{}': the shape {} is too large",
          path, t.name, shape_text(t.shape));
  t.bytes = n / type->block * type->block_bytes;
  return t;
}

std::vector<std::byte> move_rotary_rows(std::span<const std::byte> bytes, std::int64_t rows, std::int64_t n_heads,
                                        bool to_hugging_face) {
  require(rows > 0 && n_heads > 0 && rows % n_heads == 0 && (rows / n_heads) % 2 == 0,
          "cannot reorder {} rotary rows of {} heads: rows must be heads times an even width", rows, n_heads);
  require(bytes.size() % static_cast<std::size_t>(rows) == 0, "cannot reorder {} bytes as {} rows", bytes.size(), rows);
  const std::size_t width = bytes.size() / static_cast<std::size_t>(rows);
  const std::int64_t head = rows / n_heads;
  std::vector<std::byte> out(bytes.size());
  for (std::int64_t h = 0; h < n_heads; ++h) {
    for (std::int64_t i = 0; i < head / 2; ++i) {
      for (std::int64_t j = 0; j < 2; ++j) {
        const auto interleaved = static_cast<std::size_t>(h * head + 2 * i + j);
        const auto halves = static_cast<std::size_t>(h * head + j * (head / 2) + i);
        const std::size_t from = to_hugging_face ? interleaved : halves;
        const std::size_t to = to_hugging_face ? halves : interleaved;
        std::memcpy(out.data() + to * width, bytes.data() + from * width, width);
      }
    }
  }
  return out;
}

}  // namespace

Gguf::Gguf(const std::string& path) : path_(path), file_(std::make_shared<MappedFile>(path)) {
  parse(file_->bytes());
}

Gguf::Gguf(std::span<const std::byte> bytes, std::string name) : path_(std::move(name)) {
  parse(bytes);
}

void Gguf::parse(std::span<const std::byte> bytes) {
  Cursor cursor(bytes, path_);
  const auto magic = cursor.take(4, "the magic number");
  require(std::memcmp(magic.data(), "GGUF", 4) == 0, "{}: not a GGUF file: it does not begin with 'GGUF'", path_);
  version_ = cursor.number<std::uint32_t>("the version");
  require((version_ & 0xffffU) != 0, "{}: a GGUF file for big-endian machines; convert it first", path_);
  require(version_ == 2 || version_ == 3, "{}: GGUF version {}, only 2 and 3 can be read", path_, version_);
  const auto n_tensors = cursor.number<std::uint64_t>("the number of tensors");
  const auto n_metadata = cursor.number<std::uint64_t>("the number of metadata entries");
  // The shortest tensor entry: name of 1 byte, no dimensions; the shortest metadata entry: key of 1 byte, one u8.
  require(n_tensors <= cursor.left() / 25, "{}: cut short: {} tensors do not fit in {} bytes", path_, n_tensors,
          cursor.left());
  require(n_metadata <= cursor.left() / 14, "{}: cut short: {} metadata entries do not fit in {} bytes", path_,
          n_metadata, cursor.left());

  require(n_tensors <= kMaxTensors && n_metadata <= kMaxMetadata,
          "{}: {} tensors and {} metadata entries, the limits are {} and {}", path_, n_tensors, n_metadata, kMaxTensors,
          kMaxMetadata);

  MetadataReader reader(cursor, path_);
  for (std::uint64_t i = 0; i < n_metadata; ++i) {
    GgufValue value = reader.read();
    require(metadata_by_key_.emplace(value.key, metadata_.size()).second, "{}: the metadata key '{}' stands twice",
            path_, value.key);
    metadata_.push_back(std::move(value));
  }
  if (const GgufValue* alignment = find_metadata("general.alignment")) {
    alignment_ = alignment->as_unsigned();
    require(std::has_single_bit(alignment_) && alignment_ >= 8 && alignment_ <= (1U << 20),
            "{}: general.alignment is {}, a power of two from 8 to 1048576 was expected", path_, alignment_);
  }
  for (std::uint64_t i = 0; i < n_tensors; ++i) {
    GgufTensor t = read_tensor_info(cursor, path_);
    require(tensor_by_name_.emplace(t.name, tensors_.size()).second, "{}: the tensor '{}' stands twice", path_, t.name);
    tensors_.push_back(std::move(t));
  }
  const std::uint64_t start = (cursor.position() + alignment_ - 1) / alignment_ * alignment_;
  // A file without tensors may end before the padding.
  data_ = start <= bytes.size() ? bytes.subspan(start) : std::span<const std::byte>{};
  check_layout(data_.size());
}

void Gguf::check_layout(std::uint64_t available) {
  std::vector<const GgufTensor*> sorted;
  sorted.reserve(tensors_.size());
  for (const GgufTensor& t : tensors_) {
    require(t.offset % alignment_ == 0, "{}: tensor '{}': offset {} is not a multiple of the alignment {}", path_,
            t.name, t.offset, alignment_);
    require(t.bytes <= available && t.offset <= available - t.bytes,
            "{}: cut short: tensor '{}' has {} bytes at offset {}, the data has only {}", path_, t.name, t.bytes,
            t.offset, available);
    if (t.bytes != 0) {
      sorted.push_back(&t);
    }
  }
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    require(sorted[i - 1]->offset + sorted[i - 1]->bytes <= sorted[i]->offset, "{}: tensors '{}' and '{}' overlap",
            path_, sorted[i - 1]->name, sorted[i]->name);
  }
}

const GgufValue* Gguf::find_metadata(std::string_view key) const {
  const auto it = metadata_by_key_.find(std::string(key));
  return it == metadata_by_key_.end() ? nullptr : &metadata_[it->second];
}

const GgufValue& Gguf::require_metadata(std::string_view key) const {
  const GgufValue* value = find_metadata(key);
  if (value == nullptr) {
    fail("{}: the metadata '{}' is missing", path_, key);
  }
  return *value;
}

const GgufTensor* Gguf::find_tensor(std::string_view name) const {
  const auto it = tensor_by_name_.find(std::string(name));
  return it == tensor_by_name_.end() ? nullptr : &tensors_[it->second];
}

std::span<const std::byte> Gguf::data(const GgufTensor& tensor) const {
  return data_.subspan(tensor.offset, tensor.bytes);
}

void Gguf::prefetch() const {
  if (file_) {
    file_->prefetch();
  }
}

TensorView Gguf::tensor(std::string_view name) const {
  const GgufTensor* t = find_tensor(name);
  if (t == nullptr) {
    fail("{}: no tensor '{}' among its {}", path_, name, tensors_.size());
  }
  require(t->dtype.has_value(),
          "{}: tensor '{}' has type {}; Isotone computes with F32, F16, BF16, Q4_0, Q4_1 and Q8_0: use another file",
          path_, t->name, t->type_text);
  return {{t->name, *t->dtype, t->shape}, data(*t), file_};
}

std::vector<std::byte> unpermute_rotary_rows(std::span<const std::byte> bytes, std::int64_t rows,
                                             std::int64_t n_heads) {
  return move_rotary_rows(bytes, rows, n_heads, true);
}

std::vector<std::byte> permute_rotary_rows(std::span<const std::byte> bytes, std::int64_t rows, std::int64_t n_heads) {
  return move_rotary_rows(bytes, rows, n_heads, false);
}

}  // namespace isotone
